// A suite on one pair of toys, which all of its tests share.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <utility>

#include "forerun/engine.h"
#include "support/toy_model.h"

namespace forerun::testing {

class OnToyPair : public ::testing::Test {
 protected:
  // Logits far enough apart that a draft is often right, room for 512 tokens.
  static void SetUpTestSuite() {
    ToySpec spec;
    spec.dtype = DType::kBf16;
    spec.logit_std = 3.0f;
    spec.max_position = 512;
    pair_ = new ToyPair(spec);
  }
  static void TearDownTestSuite() {
    delete pair_;
    pair_ = nullptr;
  }

  // On one processor unless the options name devices. Null, and the test has failed, where there is
  // none.
  static std::unique_ptr<Engine> make(EngineOptions options = {}) {
    options.model = pair_->target();
    options.draft = pair_->draft();
    if (options.devices.empty()) options.devices = "cpu:0";
    auto engine = Engine::create(options);
    EXPECT_TRUE(engine.ok()) << engine.status().message();
    return engine.ok() ? std::move(*engine) : nullptr;
  }

  inline static ToyPair* pair_ = nullptr;
};

}  // namespace forerun::testing
