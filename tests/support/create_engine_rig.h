// An engine for a test, without a Result to open.
#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
#include <memory>
#include <string>
#include <utility>

#include "forerun/engine.h"

namespace forerun::testing {

// Fails the test and returns null if the engine cannot be created. Unless the options say where
// step costs are stored, they are where `forerun` stores them with FORERUN_TEST_CACHE as the user's
// cache, so that all tests measure once.
inline std::unique_ptr<Engine> create_engine(EngineOptions options) {
  const char* const cache = std::getenv("FORERUN_TEST_CACHE");
  if (cache != nullptr && options.cost_cache.empty()) {
    options.cost_cache = std::string(cache) + "/forerun/step-costs";
  }
  auto engine = Engine::create(options);
  EXPECT_TRUE(engine.ok()) << engine.status().message();
  return engine.ok() ? std::move(*engine) : nullptr;
}

}  // namespace forerun::testing
