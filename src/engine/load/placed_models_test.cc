#include "engine/load/placed_models.h"

#include <gtest/gtest.h>

#include <vector>

#include "engine/load/demo_stages_rig.h"
#include "engine/load/launch_rig.h"

namespace forerun {
namespace {

TEST(PlacedModels, EachStageHasDevicesAndConsecutiveLayers) {
  EngineOptions options;
  options.stage_layers = {3, 5, 2};
  const Placement placement{.target = one_thread_stages(3), .draft = one_thread_stages(1)};
  const auto placed = place_stages(demo_to_load(options), placement);
  ASSERT_TRUE(placed.ok()) << placed.status().message();
  const PlacedModel& target = placed->of(Role::kTarget);
  const std::vector<LayerRange> cut = {
      {0, 3, true, false}, {3, 8, false, false}, {8, 10, false, true}};
  EXPECT_EQ(target.layers(), cut);
  EXPECT_EQ(placed->of(Role::kDraft).layers(),
            std::vector<LayerRange>{LayerRange::all(demo_pair().draft->checkpoint.config())});
  // Four groups, none shared, in the order of the stages; the draft's group is last.
  ASSERT_EQ(placed->devices.size(), 4u);
  for (size_t idx = 0; idx < 3; ++idx) {
    EXPECT_TRUE(target.stages[idx].is_here);
    EXPECT_EQ(target.stages[idx].devices, placed->devices[idx].get());
    EXPECT_EQ(target.stages[idx].decoder, nullptr);
  }
  EXPECT_EQ(placed->of(Role::kDraft).stages[0].devices, placed->devices[3].get());
}

TEST(PlacedModels, ASequentialDraftRunsWhereTheLastStageDoes) {
  const EngineOptions options;
  const auto placed =
      place_stages(demo_to_load(options), {.target = one_thread_stages(2), .draft = {}});
  ASSERT_TRUE(placed.ok()) << placed.status().message();
  EXPECT_EQ(placed->devices.size(), 2u);
  const PlacedModel& draft = placed->of(Role::kDraft);
  ASSERT_EQ(draft.stages.size(), 1u) << "a draft is not cut";
  EXPECT_EQ(draft.stages[0].devices, placed->of(Role::kTarget).stages[1].devices);
}

TEST(PlacedModels, WithoutADraftItsRoleHasNoStages) {
  const EngineOptions options;
  const auto placed =
      place_stages(demo_to_load(options, false), {.target = one_thread_stages(1), .draft = {}});
  ASSERT_TRUE(placed.ok()) << placed.status().message();
  EXPECT_EQ(placed->of(Role::kDraft).opened, nullptr);
  EXPECT_TRUE(placed->of(Role::kDraft).stages.empty());
}

TEST(PlacedModels, StagesThatTheModelCannotBeCutIntoAreRefused) {
  EngineOptions options;
  options.stage_layers = {5, 5};
  const auto placed =
      place_stages(demo_to_load(options), {.target = one_thread_stages(3), .draft = {}});
  ASSERT_FALSE(placed.ok());
  EXPECT_EQ(placed.status().code(), StatusCode::kInvalidArgument);
}

TEST(PlacedModels, GpusOfBothModelsAreListedTheTargetsFirst) {
  PlacedModels placed;
  placed.of(Role::kTarget).stages.resize(2);
  placed.of(Role::kTarget).stages[0].gpus = {2, 0};
  placed.of(Role::kTarget).stages[1].gpus = {1};
  placed.of(Role::kTarget).stages[1].is_here = false;
  placed.of(Role::kDraft).stages.resize(1);
  placed.of(Role::kDraft).stages[0].gpus = {0};
  EXPECT_EQ(placed.gpus_here(), (std::vector<int32_t>{2, 0, 0}));
}

TEST(PlacedModels, AProcessOfALaunchHoldsTheStageOfItsRank) {
  const std::vector<Result<Share>> shares = start_on_all_ranks(2, share_of);
  for (size_t rank = 0; rank < shares.size(); ++rank) {
    ASSERT_TRUE(shares[rank].ok()) << shares[rank].status().message();
    const PlacedModel& target = shares[rank]->placed.of(Role::kTarget);
    ASSERT_EQ(target.stages.size(), 2u);
    for (size_t idx = 0; idx < 2; ++idx) {
      EXPECT_EQ(target.stages[idx].is_here, idx + 1 == rank) << "rank " << rank;
      EXPECT_EQ(target.stages[idx].devices != nullptr, idx + 1 == rank) << "rank " << rank;
    }
    EXPECT_EQ(shares[rank]->placed.devices.size(), 1u) << "rank " << rank;
    if (rank == 0) continue;
    EXPECT_EQ(&target.stage_here(), &target.stages[rank - 1]);
  }
  EXPECT_TRUE(shares[0]->placed.of(Role::kDraft).stages[0].is_here);
}

}  // namespace
}  // namespace forerun
