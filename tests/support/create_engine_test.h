// An engine for a test, without a Result to open.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <utility>

#include "forerun/engine.h"

namespace forerun::testing {

// Null, and the test has failed, where there is none.
inline std::unique_ptr<Engine> create_engine(const EngineOptions& options) {
  auto engine = Engine::create(options);
  EXPECT_TRUE(engine.ok()) << engine.status().message();
  return engine.ok() ? std::move(*engine) : nullptr;
}

}  // namespace forerun::testing
