#include "model/gpu_need.h"

#include <gtest/gtest.h>

#include <vector>

namespace forerun {
namespace {

TEST(GpuNeeds, AreRefusedWithTheFiguresOfAll) {
  std::vector<GpuNeed> needs = {
      {.gpu = 0, .weight_bytes = 6'000'000, .buffer_bytes = 3'000'000, .free_bytes = 9'000'000},
      {.gpu = 3,
       .weight_bytes = 6'000'000,
       .buffer_bytes = 3'000'000,
       .kv_tokens = 640,
       .kv_bytes = 500'001,
       .free_bytes = 9'500'001}};
  EXPECT_TRUE(check_gpu_needs(needs).ok());
  EXPECT_TRUE(check_gpu_needs({}).ok());
  --needs[1].free_bytes;
  const Status refused = check_gpu_needs(needs);
  EXPECT_EQ(refused.code(), StatusCode::kResourceExhausted);
  EXPECT_EQ(
      refused.message(),
      "cuda:0: weights 6 MB, buffers 3 MB, free are 9 MB; cuda:3: weights 6 MB, buffers 3 MB, "
      "KV cache of 640 tokens 1 MB, free are 10 MB");
}

// What others were promised may leave less than nothing.
TEST(GpuNeeds, NothingIsLeftBelowZero) {
  const GpuNeed need{.gpu = 1, .weight_bytes = 1, .free_bytes = -5'000'000};
  EXPECT_EQ(check_gpu_needs({&need, 1}).message(),
            "cuda:1: weights 1 MB, buffers 0 MB, free are 0 MB");
}

}  // namespace
}  // namespace forerun
