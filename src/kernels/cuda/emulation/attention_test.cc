// Tests the attention kernels, emulated on the host (kernels/cuda/emulation/emulation.h). Every
// kernel must give the same bits and agree with plain loops, in whatever order warps run and copies
// complete.
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "base/test_part.h"
#include "kernels/attention/cuda/kernels_rig.h"
#include "kernels/cuda/emulation/emulation.h"
#include "kernels/cuda/launch.h"

namespace forerun::cuda {
namespace {

class AttentionEmulation : public testing::Test, protected AttentionKernels {
 protected:
  AttentionEmulation() { multiprocessors = multiprocessor_count().value(); }

  // Returns whether to run the cases beyond those that every kernel needs; they take most of the
  // time.
  static bool runs_all() { return test_part() == 1; }
  // Returns the number of orders of warps and copies for the largest cases.
  static uint32_t orders() { return runs_all() ? 2 : 1; }
  static TestStep tree(int32_t prefix, int32_t old_nodes, int32_t new_nodes, int32_t arity) {
    TestStep step;
    step.add_tree(prefix, old_nodes, new_nodes, arity);
    return step;
  }
  static TestStep chain(int32_t prefix, int32_t count) {
    TestStep step;
    step.add_chain(prefix, count);
    return step;
  }
};

// The rows differ in their last tiles, over short contexts. They use clusters of blocks.
TEST_F(AttentionEmulation, TreesOverShortContexts) {
  min_kv_parts = 8;
  for (uint32_t seed = 1; seed <= orders(); ++seed) {
    emulation::set_seed(seed);
    check({4, 1, 128}, tree(1010, 2, 16, 3), 0, "over the end of a tile");
  }
  if (runs_all()) check({8, 1, 64}, tree(900, 3, 8, 2), 0, "many heads");
  check({9, 1, 64}, tree(700, 1, 9, 2), 0, "parts of a group of heads");
  check({3, 1, 64}, tree(40, 5, 16, 2), 0, "one tile");
  check({5, 1, 128}, chain(1015, 12), 300, "a window");
  EXPECT_TRUE(has_run(AttentionKernel::kDecodeCluster));
  EXPECT_TRUE(has_run(AttentionKernel::kSplitKvFusedRope));
  EXPECT_TRUE(has_run(AttentionKernel::kSplitKv));
}

// There are so many rows that clusters of 32 columns would not all fit on the GPU at once.
TEST_F(AttentionEmulation, TreesOfManyRowsOverShortContexts) {
  min_kv_parts = 8;
  check({4, 1, 128}, tree(1000, 0, 32, 3), 0, "32 rows");
  check({3, 1, 64}, tree(970, 3, 25, 2), 0, "more rows than a block has warps");
  EXPECT_TRUE(has_run(AttentionKernel::kWideDecodeCluster));
}

TEST_F(AttentionEmulation, TreesOverLongContexts) {
  check({4, 2, 64}, tree(4300, 2, 7, 2), 0, "a prefix that is shared");
  check({4, 1, 128}, tree(4000, 0, 9, 2), 900, "of a window");
  EXPECT_GT(shared_prefixes(), 0);
}

// The rows of a prompt are too few for one item per SM.
TEST_F(AttentionEmulation, PrefillClustersOfEightBlocks) {
  EXPECT_EQ(check({4, 1, 128}, chain(4010, 34), 0, "two rounds of eight blocks"),
            AttentionKernel::kPrefillCluster8FusedRope);
}

TEST_F(AttentionEmulation, PrefillClustersOfEightBlocksOverAWindow) {
  EXPECT_EQ(check({3, 1, 80}, chain(5800, 34), 5000, "two, and padded heads"),
            AttentionKernel::kPrefillCluster8);
  EXPECT_TRUE(has_run(AttentionKernel::kPrefillCluster8));
}

TEST_F(AttentionEmulation, PrefillClustersOfFourBlocks) {
  for (uint32_t seed = 1; seed <= orders(); ++seed) {
    emulation::set_seed(seed);
    check({4, 1, 128}, chain(990, 40), 0, "a round of eight blocks, and rows of other spans");
  }
  if (runs_all()) check({4, 1, 64}, chain(990, 40), 0, "two whole rounds of four blocks");
  check({5, 1, 80}, chain(1930, 34), 700, "a window, and heads that are padded");
  EXPECT_TRUE(
      is_fused_prefill_cluster(check({9, 1, 64}, chain(300, 33), 0, "parts of a group of heads")));
  TestStep two = chain(330, 34);
  two.add_chain(900, 33);
  EXPECT_TRUE(is_fused_prefill_cluster(check({4, 1, 64}, two, 0, "two sequences")));
  EXPECT_TRUE(has_run(AttentionKernel::kPrefillCluster4FusedRope));
  EXPECT_TRUE(has_run(AttentionKernel::kPrefillCluster4));
}

TEST_F(AttentionEmulation, PrefillClustersOfTwoBlocks) {
  min_kv_parts = 12;
  check({4, 1, 128}, chain(1010, 35), 0, "a broken round");
  check({8, 1, 64}, chain(1400, 36), 300, "of a window");
  EXPECT_TRUE(has_run(AttentionKernel::kPrefillCluster2FusedRope));
  EXPECT_TRUE(has_run(AttentionKernel::kPrefillCluster2));
}

TEST_F(AttentionEmulation, PromptsAndSequences) {
  check({2, 1, 128}, chain(100, 70), 0, "a prompt");
  TestStep step;
  for (int32_t i = 0; i < 5; ++i) step.add_tree(50 + i * 97, i % 2, 1 + i % 3, 2);
  check({4, 1, 64}, step, 0, "sequences");
  EXPECT_TRUE(has_run(AttentionKernel::kPersistent));
  step.add_chain(300, 40);
  check({4, 1, 64}, step, 0, "sequences and a prompt");
  EXPECT_TRUE(has_run(AttentionKernel::kPrefill));
  EXPECT_TRUE(has_run(AttentionKernel::kPrefillThenPersistent));
}

TEST_F(AttentionEmulation, RefusesWhatItHasNoKernelFor) {
  AttentionCallCuda call;
  call.kv.num_kv_heads = 2;
  call.kv.head_dim = 64;
  call.num_heads = 5;
  EXPECT_EQ(attention_cuda(call, nullptr).code(), StatusCode::kInvalidArgument);
  call.num_heads = 4;
  call.kv.head_dim = 80;
  call.kernel = AttentionKernel::kSplitKvFusedRope;
  EXPECT_EQ(attention_cuda(call, nullptr).code(), StatusCode::kInvalidArgument);
  call.kv.head_dim = 64;
  call.kernel = AttentionKernel::kPrefillCluster8;
  EXPECT_EQ(attention_cuda(call, nullptr).code(), StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace forerun::cuda
