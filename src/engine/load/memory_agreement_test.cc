#include "engine/load/memory_agreement.h"

#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "engine/load/launch_rig.h"

namespace forerun {
namespace {

MemoryPlan plan_of(int32_t context, int64_t target_blocks) {
  MemoryPlan plan;
  plan.max_context_tokens = context;
  plan.tree_tokens = 256;
  plan.target_blocks = target_blocks;
  return plan;
}

// Every rank passes its entry of `plans`.
std::vector<Result<MemoryPlan>> agree(const std::vector<Result<MemoryPlan>>& plans) {
  return start_on_all_ranks(
      static_cast<int32_t>(plans.size()) - 1, [&](const std::shared_ptr<Hosts>& hosts) {
        return agree_on_memory(*hosts, plans[static_cast<size_t>(hosts->rank())]);
      });
}

TEST(MemoryAgreement, TheLeastContextAndTheFewestBlocksCountForAll) {
  // Neither the coordinator nor any single stage has the minimum of both.
  const auto agreed = agree({plan_of(4096, 100), plan_of(4096, 60), plan_of(2048, 80)});
  for (const Result<MemoryPlan>& plan : agreed) {
    ASSERT_TRUE(plan.ok()) << plan.status().message();
    EXPECT_EQ(plan->max_context_tokens, 2048);
    EXPECT_EQ(plan->target_blocks, 60);
    EXPECT_EQ(plan->draft_blocks, 0) << "there is no draft";
    EXPECT_EQ(plan->tree_tokens, 256) << "the rest of the plan is the process' own";
  }
}

TEST(MemoryAgreement, ADraftThatKeepsAllHasAsManyBlocksAsTheTarget) {
  MemoryPlan coordinators = plan_of(4096, 100);
  coordinators.draft_blocks = 100;
  auto agreed = agree({coordinators, plan_of(4096, 60)});
  ASSERT_TRUE(agreed[0].ok()) << agreed[0].status().message();
  EXPECT_EQ(agreed[0]->draft_blocks, 60);
  // Blocks of windows do not depend on the target's blocks.
  coordinators.draft_blocks = 9;
  coordinators.draft_window = 128;
  agreed = agree({coordinators, plan_of(4096, 60)});
  ASSERT_TRUE(agreed[0].ok()) << agreed[0].status().message();
  EXPECT_EQ(agreed[0]->target_blocks, 60);
  EXPECT_EQ(agreed[0]->draft_blocks, 9);
}

TEST(MemoryAgreement, AFailureOfOneProcessIsTheFailureOfAll) {
  const Status full(StatusCode::kResourceExhausted, "KV cache: too small");
  expect_all_fail(agree({plan_of(4096, 100), plan_of(4096, 60), full}),
                  StatusCode::kResourceExhausted, "rank 2 (stage 2 of 2): KV cache: too small");
  expect_all_fail(agree({full, plan_of(4096, 60), plan_of(4096, 60)}),
                  StatusCode::kResourceExhausted, "KV cache: too small");
}

TEST(MemoryAgreement, APlanWithoutRoomIsRefused) {
  expect_all_fail(agree({plan_of(4096, 100), plan_of(4096, 0)}), StatusCode::kCorrupt,
                  "memory plan: size: found none");
}

}  // namespace
}  // namespace forerun
