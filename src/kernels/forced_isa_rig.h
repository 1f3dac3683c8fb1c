// Support for test programs that run once per instruction set, named by FORERUN_ISA: skips all
// tests of the program if the CPU lacks that instruction set.
#pragma once

#include <gtest/gtest.h>

#include <cstdlib>

#include "kernels/isa.h"

namespace forerun {

class ForcedIsa : public ::testing::Environment {
 public:
  void SetUp() override {
    if (!check_isa().ok()) {
      GTEST_SKIP() << "not supported by this processor: " << check_isa().message();
    }
    const char* const forced = std::getenv("FORERUN_ISA");
    if (forced != nullptr) {
      EXPECT_STREQ(isa_name(current_isa()), forced);
    }
  }
};
inline const ::testing::Environment* const kForcedIsa =
    ::testing::AddGlobalTestEnvironment(new ForcedIsa);

}  // namespace forerun
