// Tests attention on a GPU: compares it with plain loops in double over swept shapes, contexts,
// trees and windows, and bit by bit between all kernels, alone and beside other rows. Skipped
// without a GPU.
#include "kernels/attention/cuda/attention.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <numeric>
#include <string>
#include <vector>

#include "device/cuda/cuda_devices.h"
#include "kernels/attention/cuda/kernels_rig.h"

namespace forerun::cuda {
namespace {

TEST(Difference, SeesNanAndSign) {
  const std::vector<bf16> found = {to_bf16(1.0f), to_bf16(-0.5f)};
  EXPECT_EQ(difference(found.data(), {1.0, -0.5}), 0);
  EXPECT_EQ(difference(found.data(), {1.0, 0.5}), 1);
  const std::vector<bf16> nan = {bf16{0x7fff}};
  EXPECT_GT(difference(nan.data(), {1.0}), 1e30);
}

class AttentionCuda : public testing::Test, protected AttentionKernels {
 protected:
  void SetUp() override {
    const auto devices = list_devices();
    ASSERT_TRUE(devices.ok()) << devices.status().message();
    if (devices->empty()) GTEST_SKIP() << "no GPU";
  }
};

TEST_F(AttentionCuda, HeadsOfManyShapes) {
  for (const int32_t dim : {32, 64, 80, 96, 128, 256}) {
    for (const auto& [heads, kv_heads] : std::vector<std::pair<int32_t, int32_t>>{
             {2, 2}, {4, 2}, {6, 2}, {8, 2}, {10, 2}, {6, 1}, {7, 1}, {8, 1}, {9, 1}, {16, 1}}) {
      TestStep step;
      step.add_tree(150, 2, 9, 2);
      check({heads, kv_heads, dim}, step, 0, "tree");
      if (dim != 64) continue;
      TestStep rows;
      rows.add_chain(150, 40);
      check({heads, kv_heads, dim}, rows, 0, "chain");
    }
  }
  TestStep chain;
  chain.add_chain(333, 50);
  check({8, 2, 64}, chain, 0, "chain");
  for (const AttentionKernel kernel :
       {AttentionKernel::kUnsplitKv, AttentionKernel::kPrefill, AttentionKernel::kSplitKv,
        AttentionKernel::kSplitKvFusedRope, AttentionKernel::kDecodeCluster}) {
    EXPECT_TRUE(has_run(kernel));
  }
}

TEST_F(AttentionCuda, ContextsAroundTheEdgesOfTilesAndSpans) {
  for (const int32_t prefix : {0,   1,   15,   16,   17,   48,   63,   64,   65,   127,
                               128, 500, 1000, 1020, 1500, 1915, 2500, 3700, 4090, 4096}) {
    TestStep step;
    step.add_tree(prefix, 1, 8, 2);
    check({8, 2, 64}, step, 0, "tree at " + std::to_string(prefix));
    TestStep chain;
    chain.add_chain(prefix, 12);
    check({8, 2, 64}, chain, 0, "chain at " + std::to_string(prefix));
  }
}

// There are so many rows that clusters of 32 columns would not all be resident.
TEST_F(AttentionCuda, ShortContextsOfManyRows) {
  for (const int32_t dim : {64, 128}) {
    for (const int32_t prefix : {300, 1000, 2100}) {
      for (const auto& [heads, rows] : std::vector<std::pair<int32_t, int32_t>>{
               {8, 29}, {24, 32}, {24, 27}, {32, 25}, {32, 32}}) {
        TestStep step;
        step.add_tree(prefix, heads == 32 ? 0 : 2, rows, 3);
        check({heads, 8, dim}, step, dim == 64 ? 0 : 700, std::to_string(rows) + " rows");
      }
    }
  }
  EXPECT_TRUE(has_run(AttentionKernel::kWideDecodeCluster));
}

// Prompts have too few rows for one item per SM: full and partial rounds of clusters of two, four
// and eight blocks.
TEST_F(AttentionCuda, PrefillClusters) {
  TestStep step;
  step.add_chain(330, 35);
  check({4, 1, 128}, step, 0, "of four blocks");
  EXPECT_TRUE(has_run(AttentionKernel::kPrefillCluster4FusedRope));
  EXPECT_TRUE(has_run(AttentionKernel::kPrefillCluster4));
  TestStep longer;
  longer.add_chain(1010, 35);
  check({4, 1, 128}, longer, 0, "of eight blocks");
  TestStep rounds;
  rounds.add_chain(4010, 48);
  EXPECT_EQ(check({16, 2, 128}, rounds, 0, "of eight blocks, two rounds"),
            AttentionKernel::kPrefillCluster8FusedRope);
  EXPECT_TRUE(has_run(AttentionKernel::kPrefillCluster8FusedRope));
  EXPECT_TRUE(has_run(AttentionKernel::kPrefillCluster8));
  TestStep two;  // sequences
  two.add_chain(330, 34);
  two.add_chain(900, 33);
  EXPECT_TRUE(is_fused_prefill_cluster(check({4, 1, 128}, two, 0, "of two sequences")));
  TestStep parts;
  parts.add_chain(300, 33);
  EXPECT_TRUE(
      is_fused_prefill_cluster(check({9, 1, 64}, parts, 0, "of parts of a group of heads")));
  min_kv_parts = 12;
  check({4, 1, 128}, step, 0, "of two blocks");
  EXPECT_TRUE(has_run(AttentionKernel::kPrefillCluster2FusedRope));
  EXPECT_TRUE(has_run(AttentionKernel::kPrefillCluster2));
}

// Tests spans of one to eight tiles, windows and padded heads.
TEST_F(AttentionCuda, PrefillClustersOfManyShapes) {
  for (const auto& [heads, kv_heads, dim] : std::vector<std::array<int32_t, 3>>{
           {32, 8, 128}, {24, 8, 128}, {16, 2, 128}, {32, 8, 64}, {9, 1, 64}, {10, 2, 80}}) {
    for (const int32_t prefix : {200, 330, 960, 1000, 1900, 3000, 16370}) {
      if (prefix > 3000 && kv_heads > 2) continue;
      for (const int32_t rows : {17, 33, 64}) {
        TestStep step;
        step.add_chain(prefix, rows);
        check({heads, kv_heads, dim}, step, dim == 128 ? 0 : 700,
              std::to_string(rows) + " rows at " + std::to_string(prefix));
      }
    }
  }
  EXPECT_TRUE(has_run(AttentionKernel::kPrefillCluster2FusedRope));
  EXPECT_TRUE(has_run(AttentionKernel::kPrefillCluster4FusedRope));
  EXPECT_TRUE(has_run(AttentionKernel::kPrefillCluster8FusedRope));
}

TEST_F(AttentionCuda, LongContexts) {
  for (const int32_t prefix : {16380, 33000}) {
    TestStep step;
    step.add_tree(prefix, 3, 8, 2);
    check({8, 2, 128}, step, 0, "tree at " + std::to_string(prefix));
  }
  EXPECT_GT(shared_prefixes(), 0);
}

// Tests spans that all rows share, with the kernel that loads them once: one or several query
// tiles, several sequences, trees that extend into tiles and spans of others, windows.
TEST_F(AttentionCuda, SharedPrefixes) {
  for (const int32_t window : {0, 900}) {
    for (const auto& [heads, kv_heads, dim] :
         std::vector<std::array<int32_t, 3>>{{16, 8, 64}, {48, 8, 64}, {20, 10, 128}}) {
      TestStep few;
      few.add_tree(4350, 2, 7, 2);
      check({heads, kv_heads, dim}, few, window, "a group");
      TestStep more;
      more.add_tree(4000, 3, 20, 2);
      more.add_chain(4347, 11);
      more.add_tree(500, 0, 3, 1);
      check({heads, kv_heads, dim}, more, window, "groups");
    }
  }
  TestStep deep;
  deep.add_tree(4300, 70, 9, 1);
  check({16, 8, 64}, deep, 0, "deep");
  EXPECT_GE(shared_prefixes(), 20);
}

// Each block has several shared items, for one warpgroup and for both: a warpgroup that skips the
// other's items must not read their data, which the ring still holds.
TEST_F(AttentionCuda, BlocksWithManySharedItems) {
  for (const int32_t rows : {8, 28, 42}) {
    TestStep step;
    step.add_tree(12000, 1, rows, 3);
    check({32, 8, 128}, step, 0, std::to_string(rows) + " rows");
  }
  EXPECT_GE(shared_prefixes(), 6);
}

// Tests items for one warpgroup and for both, whose columns do not divide 64, and parts with fewer
// heads.
TEST_F(AttentionCuda, SharedPrefixesOfManyColumns) {
  for (const auto& [heads, kv_heads] :
       std::vector<std::pair<int32_t, int32_t>>{{16, 2}, {14, 2}, {9, 1}, {2, 2}}) {
    for (const int32_t window : {0, 9000}) {
      TestStep step;
      step.add_tree(18000, 1, 28, 3);
      check({heads, kv_heads, 128}, step, window, "tree");
    }
  }
  TestStep many;
  many.add_tree(9000, 0, 70, 3);
  check({8, 2, 64}, many, 0, "many rows");
  EXPECT_GE(shared_prefixes(), 18);
}

TEST_F(AttentionCuda, Windows) {
  for (const int32_t window : {1, 5, 64, 100, 600}) {
    for (const int32_t prefix : {0, 70, 1000, 4200}) {
      TestStep step;
      step.add_tree(prefix, 2, 9, 2);
      check({4, 1, 64}, step, window, "tree at " + std::to_string(prefix));
      TestStep chain;
      chain.add_chain(prefix, 90);
      check({8, 2, 64}, chain, window, "chain at " + std::to_string(prefix));
    }
  }
}

TEST_F(AttentionCuda, DeepAndWideTrees) {
  TestStep deep;
  deep.add_tree(100, 40, 100, 1);  // the chain is longer than a tile
  check({8, 2, 128}, deep, 0, "deep");
  TestStep wide;
  wide.add_tree(60, 10, 120, 4);
  check({8, 1, 128}, wide, 0, "wide");
  TestStep heads;
  heads.add_tree(60, 10, 20, 4);
  check({2, 2, 64}, heads, 0, "a head each");
  min_kv_parts = 8;
  TestStep many;
  many.add_tree(1000, 0, 32, 3);
  check({4, 1, 128}, many, 0, "as if of eight heads");
  EXPECT_TRUE(has_run(AttentionKernel::kWideDecodeCluster));
}

TEST_F(AttentionCuda, ManySequencesAndLongPrefills) {
  TestStep batch;
  for (int32_t i = 0; i < 24; ++i) {
    if (i % 3 == 0) {
      batch.add_chain(i * 37, 1);
    } else {
      batch.add_tree(i * 29, i % 2, 4, 2);
    }
  }
  check({16, 8, 64}, batch, 0, "batch");
  TestStep prefill;
  prefill.add_chain(0, 200);
  prefill.add_chain(333, 56);
  check({8, 2, 128}, prefill, 0, "prefill");
}

// Shares end inside units: workers hand totals over, and some units are longer than a share.
TEST_F(AttentionCuda, ManySequencesOfUnequalContexts) {
  TestStep batch;
  for (int32_t i = 0; i < 45; ++i) {
    const int32_t context = i * 7919 % 2600;
    if (i % 5 == 0) {
      batch.add_tree(context, i % 3, 1 + i % 11, 2);
    } else if (i % 5 == 1) {
      batch.add_chain(context, 1);
    } else {
      batch.add_tree(context, 0, 1 + i % 7, 1);  // chains through ancestor lists
    }
  }
  check({32, 8, 128}, batch, 0, "batch");
  EXPECT_TRUE(has_run(AttentionKernel::kPersistent));
  check({16, 8, 64}, batch, 700, "batch, window");
  check({12, 2, 96}, batch, 0, "batch, two heads");
  TestStep few;
  few.add_tree(9000, 0, 8, 1);
  few.add_tree(17000, 2, 5, 2);
  few.add_chain(1500, 3);
  check({32, 8, 128}, few, 0, "few and long");
  check({8, 2, 64}, few, 5000, "few and long, window");
  TestStep many;
  for (int32_t i = 0; i < 80; ++i) many.add_tree(500 + i % 3, 0, 1 + i % 3, 1);
  check({16, 8, 64}, many, 0, "many");
}

// Prompts and other rows each take the kernel that fits them.
TEST_F(AttentionCuda, PromptsBesideDecodingRowsAndTrees) {
  TestStep step;
  step.add_chain(300, 150);
  for (int32_t i = 0; i < 30; ++i) step.add_chain(900 + i * 61, 1);
  step.add_tree(1200, 1, 9, 3);
  step.add_chain(0, 70);
  check({32, 8, 128}, step, 0, "prompts");
  EXPECT_TRUE(has_run(AttentionKernel::kPrefillThenPersistent));
  check({8, 2, 64}, step, 400, "prompts, window");
}

TEST_F(AttentionCuda, WorkersThatWaitForATotalInVainSaySo) {
  TestStep step;
  for (int32_t i = 0; i < 60; ++i) step.add_chain(700, 1);
  AttentionRig rig({16, 8, 64}, step.num_blocks);
  rig.fill_cache(step);
  std::vector<int32_t> ids(step.rows.size());
  std::iota(ids.begin(), ids.end(), 0);
  rig.fill_qkv(ids, step.rows);
  AttentionPlanCuda plan;
  plan.build(step.rows, rig.terms());
  ASSERT_EQ(plan.kernel, AttentionKernel::kPersistent);
  const auto handed = std::find_if(plan.runs.begin(), plan.runs.end(),
                                   [](const auto& run) { return run.hands_over != 0; });
  ASSERT_NE(handed, plan.runs.end());
  handed->num_units = 0;
  rig.run_plan(plan, 0);
  EXPECT_EQ(rig.take_failed(), 1u);
  (void)rig.run(step.rows, 0, rig.terms());
}

TEST_F(AttentionCuda, BlocksThatWaitInVainSaySo) {
  TestStep step;
  step.add_chain(200, 4);
  AttentionRig rig({8, 2, 64}, step.num_blocks);
  rig.fill_cache(step);
  rig.fill_qkv({0, 1, 2, 3}, step.rows);
  AttentionShapeCuda terms = rig.terms();
  terms.may_cluster = false;
  AttentionPlanCuda plan;
  plan.build(step.rows, terms);
  ASSERT_EQ(plan.kernel, AttentionKernel::kSplitKvFusedRope);
  plan.items.pop_back();
  rig.run_plan(plan, 0);
  EXPECT_EQ(rig.take_failed(), 1u);
  (void)rig.run(step.rows, 0, rig.terms());
}

TEST_F(AttentionCuda, BlocksThatWaitForASharedPrefixInVainSaySo) {
  TestStep step;
  step.add_tree(20000, 0, 2, 2);
  AttentionRig rig({8, 2, 64}, step.num_blocks);
  rig.fill_cache(step);
  rig.fill_qkv({0, 1}, step.rows);
  AttentionPlanCuda plan;
  plan.build(step.rows, rig.terms());
  ASSERT_NE(plan.shared_prefix, SharedPrefix::kNone);
  plan.prefix_items.pop_back();
  rig.run_plan(plan, 0);
  EXPECT_EQ(rig.take_failed(), 1u);
  (void)rig.run(step.rows, 0, rig.terms());
}

}  // namespace
}  // namespace forerun::cuda
