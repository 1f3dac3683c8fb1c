#include "engine/load/numerics_options.h"

#include <gtest/gtest.h>

namespace forerun {
namespace {

TEST(NumericsOptions, OnlyALargeHeadIsWorthRounding) {
  EXPECT_TRUE(int4_head_pays(2048, 128256));   // Llama-3.2-1B
  EXPECT_TRUE(int4_head_pays(896, 151936));    // Qwen2.5-0.5B
  EXPECT_TRUE(int4_head_pays(2048, 32000));    // TinyLlama-1.1B
  EXPECT_FALSE(int4_head_pays(2048, 8192));    // a pair grown from the demo pair
  EXPECT_FALSE(int4_head_pays(256, 8192));     // the demo target
  EXPECT_FALSE(int4_head_pays(2000, 128256));  // no groups of 128 inputs
}

}  // namespace
}  // namespace forerun
