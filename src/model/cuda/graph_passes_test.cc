#include "model/cuda/graph_passes.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "model/cuda/step_block.h"

namespace forerun::cuda {
namespace {

// 8 KV heads with 4 query heads each.
constexpr AttentionShapeCuda kShape = {
    .kv_parts = 8, .row_columns = 4, .max_partials = 1 << 16, .may_fuse = true};

TEST(GraphPasses, EveryBucketHasGraphsWithItsHeadAndWithout) {
  const std::vector<PassKeyCuda> passes = graph_passes_cuda(kShape, 1 << 20, kMaxPassRows);
  EXPECT_TRUE(std::is_sorted(passes.begin(), passes.end()));
  std::set<int32_t> buckets;
  for (const PassKeyCuda& pass : passes) {
    buckets.insert(pass.rows);
    EXPECT_EQ(pass_bucket(pass.rows), pass.rows);
    EXPECT_TRUE(pass.wanted == 0 || pass.wanted == pass.rows);
    PassKeyCuda other = pass;
    other.wanted = pass.wanted == 0 ? pass.rows : 0;
    EXPECT_TRUE(std::binary_search(passes.begin(), passes.end(), other));
  }
  std::set<int32_t> all;
  for (int32_t rows = 1; rows <= kMaxGraphRows; ++rows) all.insert(pass_bucket(rows));
  EXPECT_EQ(buckets, all);
  // Each graph adds some milliseconds to start-up.
  EXPECT_LT(passes.size(), 200);
}

TEST(GraphPasses, ShortAndLongContextsAndTreesAreAmongThem) {
  const std::vector<PassKeyCuda> passes = graph_passes_cuda(kShape, 1 << 20, 8);
  std::set<AttentionKernel> kernels;
  for (const PassKeyCuda& pass : passes) {
    EXPECT_LE(pass.rows, 8);
    kernels.insert(pass.kernel);
  }
  EXPECT_TRUE(kernels.contains(AttentionKernel::kDecodeCluster));
  EXPECT_TRUE(kernels.contains(AttentionKernel::kSplitKvFusedRope));
}

TEST(GraphPasses, NothingLongerThanTheCacheHolds) {
  const auto passes_to = [](int64_t context) {
    return graph_passes_cuda(kShape, context, kMaxPassRows).size();
  };
  EXPECT_GT(passes_to(100), 0);
  EXPECT_LT(passes_to(1000), passes_to(1 << 20));
  EXPECT_EQ(passes_to(50), 0);
}

}  // namespace
}  // namespace forerun::cuda
