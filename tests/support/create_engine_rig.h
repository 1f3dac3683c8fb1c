// An engine for a test, without a Result to open.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <utility>

#include "forerun/engine.h"

namespace forerun::testing {

// Fails the test and returns null if the engine cannot be created.
inline std::unique_ptr<Engine> create_engine(const EngineOptions& options) {
  auto engine = Engine::create(options);
  EXPECT_TRUE(engine.ok()) << engine.status().message();
  return engine.ok() ? std::move(*engine) : nullptr;
}

}  // namespace forerun::testing
