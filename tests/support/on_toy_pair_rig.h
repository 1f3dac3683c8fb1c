// A suite on one pair of toys, which all of its tests share.
#pragma once

#include <gtest/gtest.h>

#include <memory>

#include "forerun/engine.h"
#include "support/create_engine_rig.h"
#include "support/toy_model.h"

namespace forerun::testing {

class OnToyPair : public ::testing::Test {
 protected:
  static void SetUpTestSuite() { pair_ = new ToyPair(drafted_toy()); }
  static void TearDownTestSuite() {
    delete pair_;
    pair_ = nullptr;
  }

  // On one processor unless the options name devices; null as with create_engine.
  static std::unique_ptr<Engine> make(EngineOptions options = {}) {
    options.model = pair_->target();
    options.draft = pair_->draft();
    if (options.devices.empty()) options.devices = one_processor();
    return create_engine(options);
  }

  inline static ToyPair* pair_ = nullptr;
};

}  // namespace forerun::testing
