#include "engine/load/stage_memory.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "engine/load/demo_stages_rig.h"
#include "engine/load/launch_rig.h"

namespace forerun {
namespace {

TEST(StageMemory, EveryStageAndTheDraftTakeMemoryOfThisMachine) {
  const EngineOptions options;
  const ModelsToLoad models = demo_to_load(options);
  const auto placed =
      place_stages(models, {.target = one_thread_stages(2), .draft = one_thread_stages(1)});
  ASSERT_TRUE(placed.ok()) << placed.status().message();
  const auto plan = plan_stage_memory(models, *placed);
  ASSERT_TRUE(plan.ok()) << plan.status().message();
  ASSERT_EQ(plan->memories.size(), 1u);
  const std::vector<MemoryNeed>& needs = plan->memories[0].needs;
  ASSERT_EQ(needs.size(), 3u);
  EXPECT_EQ(needs[0].name, "target stage 1");
  EXPECT_EQ(needs[1].name, "target stage 2");
  EXPECT_EQ(needs[2].name, "draft");
  EXPECT_EQ(needs[1].role, Role::kTarget);
  EXPECT_EQ(needs[2].role, Role::kDraft);
  for (const MemoryNeed& need : needs) EXPECT_GT(need.weight_bytes, 0) << need.name;
}

TEST(StageMemory, AStageInAnotherProcessTakesNoMemoryOfThisMachine) {
  const std::vector<Result<Share>> shares = start_on_all_ranks(2, share_of);
  const auto memories = [&](size_t rank) {
    std::vector<std::string> names;
    for (const DeviceMemory& memory : shares[rank]->memories) names.push_back(memory.name);
    return names;
  };
  for (const Result<Share>& share : shares) ASSERT_TRUE(share.ok()) << share.status().message();
  using Names = std::vector<std::string>;
  EXPECT_EQ(memories(0), (Names{"target stage 1's host", "target stage 2's host", "this machine"}));
  EXPECT_EQ(memories(1), (Names{"this machine", "target stage 2's host"}));
  EXPECT_EQ(memories(2), (Names{"target stage 1's host", "this machine"}));
}

}  // namespace
}  // namespace forerun
