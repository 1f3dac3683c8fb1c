#include "kernels/linear/cuda/plan.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <utility>

#include "kernels/linear/cuda/tile_plan.h"

namespace forerun::cuda {
namespace {

constexpr int kH200SharedLimit = 232448;

struct Shape {
  int64_t in, out;
};
// The shapes are layers of Llama-3-70B over 1 to 4 GPUs, 8B, 3B, 1B, and awkward shapes.
constexpr Shape kShapes[] = {
    {8192, 2560},  {2048, 8192},  {8192, 14336}, {7168, 8192},  {8192, 5120}, {4096, 8192},
    {14336, 8192}, {8192, 10240}, {28672, 8192}, {8192, 57344}, {4096, 6144}, {4096, 4096},
    {4096, 28672}, {14336, 4096}, {3072, 5120},  {3072, 16384}, {2048, 3072}, {2048, 2048},
    {8192, 19200}, {9600, 8192},  {128, 8},      {256, 40},     {384, 100},   {4096, 128256}};

TEST(LinearPlanCuda, EveryShapeHasASplitThatFitsAndKeepsItsRules) {
  for (const LinearFormat format :
       {LinearFormat::kInt4Group128, LinearFormat::kInt8Group64, LinearFormat::kBf16}) {
    for (const Shape& shape : kShapes) {
      const Result<LinearPlan> plan = plan_linear(format, shape.in, shape.out);
      ASSERT_TRUE(plan.ok()) << plan.status().message();
      EXPECT_GE(plan->tiles * kTileOutputs, shape.out);
      EXPECT_EQ(static_cast<int64_t>(plan->units) * unit_inputs(format), shape.in);
      EXPECT_LE(plan->cluster_size * plan->slice_k_warps, plan->units);
      EXPECT_LE(plan->clusters, max_clusters(plan->cluster_size));
      for (const int rows : {1, 2, 5, 8, 9, 16, 17, 32, 64, 1000}) {
        const Result<LinearLaunch> launch = plan_launch(*plan, rows, kH200SharedLimit);
        ASSERT_TRUE(launch.ok()) << launch.status().message();
        EXPECT_EQ(launch->n8_tiles, rows <= 8 ? 1 : rows <= 16 ? 2 : 4);
        EXPECT_GE(launch->row_tiles * launch->n8_tiles * 8, rows);
        EXPECT_LE(launch->shared_bytes, kH200SharedLimit);
        EXPECT_GE(launch->stages, 1);
        EXPECT_LE(launch->stages, kMaxStages);
        EXPECT_EQ(launch->input_stride_bytes % 32, 16);
        const bool few = rows < 8 && launch->segments == 1;
        EXPECT_EQ(launch->input_rows, few ? rows : 8 * launch->n8_tiles);
        if (rows < 8) {
          EXPECT_GE(launch->shared_bytes, plan_launch(*plan, 8, kH200SharedLimit)->shared_bytes);
        }
        const int warp_units = (plan->units + plan->cluster_size * plan->slice_k_warps - 1) /
                               (plan->cluster_size * plan->slice_k_warps);
        EXPECT_GE(launch->segments * launch->segment_units, warp_units);
        EXPECT_EQ(launch->ring_offset % 128, 0);
        const int warps = launch->tile_warps * plan->slice_k_warps;
        EXPECT_LE(launch->stages * warps, ring_barriers(launch->n8_tiles));
        EXPECT_LE(warps,
                  launch->schedule == TileSchedule::kManyWarps ? kMaxLinearWarps : kLinearWarps);
        if (launch->schedule == TileSchedule::kMultiPass) continue;
        EXPECT_EQ(launch->segments, 1);
        EXPECT_GE(launch->tile_warps * plan->clusters, plan->tiles);
        if (plan->slice_k_warps > 1) {
          EXPECT_GE(launch->stages * stage_bytes(format), launch->n8_tiles * 1024);
        }
      }
    }
  }
}

TEST(LinearPlanCuda, WarpsAreAsManyAsTilesWhereThatIsEven) {
  // Gate and up of 8B have 14 tiles per cluster, of which 8 warps would take 8 and then 6. Gate and
  // up of 70B over 4 GPUs have 7 tiles, which 14 warps share.
  for (const Shape shape : {Shape{4096, 28672}, {8192, 14336}}) {
    const Result<LinearPlan> plan = plan_linear(LinearFormat::kInt4Group128, shape.in, shape.out);
    ASSERT_TRUE(plan.ok());
    for (const int rows : {8, 16}) {
      const Result<LinearLaunch> launch = plan_launch(*plan, rows, kH200SharedLimit);
      ASSERT_TRUE(launch.ok());
      EXPECT_EQ(launch->schedule, TileSchedule::kManyWarps);
      EXPECT_EQ(launch->tile_warps * plan->slice_k_warps, 14);
    }
  }
  // An LM head has hundreds of tiles.
  const Result<LinearPlan> head = plan_linear(LinearFormat::kBf16, 4096, 128256);
  ASSERT_TRUE(head.ok());
  const Result<LinearLaunch> passes = plan_launch(*head, 8, kH200SharedLimit);
  ASSERT_TRUE(passes.ok());
  EXPECT_EQ(passes->schedule, TileSchedule::kMultiPass);
}

TEST(LinearPlanCuda, FewRowsLeaveRoomForMoreUnitsOnTheirWay) {
  // Gate and up of 8B take 64 KB of activations at 8 rows.
  const Result<LinearPlan> gate_up = plan_linear(LinearFormat::kBf16, 4096, 28672);
  ASSERT_TRUE(gate_up.ok());
  const Result<LinearLaunch> one_row = plan_launch(*gate_up, 1, kH200SharedLimit);
  const Result<LinearLaunch> eight_rows = plan_launch(*gate_up, 8, kH200SharedLimit);
  ASSERT_TRUE(one_row.ok() && eight_rows.ok());
  EXPECT_EQ(one_row->schedule, TileSchedule::kSinglePass);
  EXPECT_EQ(one_row->stages, kMaxStages);
  EXPECT_EQ(eight_rows->schedule, TileSchedule::kMultiPass);
  EXPECT_EQ(eight_rows->stages, 4);
}

TEST(LinearPlanCuda, ALayerBesideAttentionLeavesItRoom) {
  constexpr int kMultiprocessorBytes = 228 << 10;
  constexpr int kReservedBytes = 1 << 10;
  // The cases are QKV of 8B and 3B; of a quarter of 70B, which leaves SMs idle; of 1B, whose 8
  // warps leave room anyway.
  struct Case {
    Shape shape;
    int rows;
    bool has_effect;
  };
  for (const Case& c : {Case{{4096, 6144}, 16, true}, Case{{3072, 5120}, 9, true},
                        Case{{4096, 6144}, 8, false}, Case{{4096, 6144}, 24, false},
                        Case{{8192, 2560}, 16, false}, Case{{2048, 3072}, 16, false}}) {
    const Result<LinearPlan> plan =
        plan_linear(LinearFormat::kInt4Group128, c.shape.in, c.shape.out, /*may_idle_sms=*/true);
    ASSERT_TRUE(plan.ok());
    const Result<LinearLaunch> half = plan_launch(*plan, c.rows, kH200SharedLimit);
    const Result<LinearLaunch> beside =
        plan_launch(*plan, c.rows, kH200SharedLimit, LinearFootprint::kBesideAttention);
    ASSERT_TRUE(half.ok() && beside.ok());
    EXPECT_EQ(beside->few_registers, c.has_effect) << c.shape.in << ' ' << c.rows;
    EXPECT_EQ(beside->stages, half->stages);
    if (!c.has_effect) {
      EXPECT_EQ(beside->shared_bytes, half->shared_bytes);
      continue;
    }
    const int taken = beside->shared_bytes + kReservedBytes;
    EXPECT_GT(2 * taken, kMultiprocessorBytes);
    EXPECT_GE(kMultiprocessorBytes - taken - kReservedBytes, 110 << 10);  // a block of attention
  }
}

TEST(LinearPlanCuda, ALayerWithAnSmToItselfMayTakeWhatTheOthersLeave) {
  // This is the down projection of a third of 70B.
  const Result<LinearPlan> down = plan_linear(LinearFormat::kInt4Group128, 9600, 8192);
  ASSERT_TRUE(down.ok());
  const Result<LinearLaunch> half = plan_launch(*down, 8, kH200SharedLimit);
  const Result<LinearLaunch> over =
      plan_launch(*down, 8, kH200SharedLimit, LinearFootprint::kOverHalf);
  ASSERT_TRUE(half.ok() && over.ok());
  EXPECT_EQ(half->schedule, TileSchedule::kMultiPass);
  EXPECT_EQ(over->schedule, TileSchedule::kSinglePass);
}

TEST(LinearPlanCuda, FewTilesAreSplitOverBlocks) {
  for (const Shape shape : {Shape{256, 512}, {384, 256}, {1024, 2048}, {4096, 4096}}) {
    const Result<LinearPlan> plan = plan_linear(LinearFormat::kInt4Group128, shape.in, shape.out);
    ASSERT_TRUE(plan.ok());
    EXPECT_EQ(plan->cluster_size, 2) << shape.in << " x " << shape.out;
  }
  const Result<LinearPlan> group = plan_linear(LinearFormat::kInt4Group128, 128, 512);
  ASSERT_TRUE(group.ok());
  EXPECT_EQ(group->cluster_size, 1);  // one unit
}

TEST(LinearPlanCuda, LargeClustersAreNoMoreThanFinishAsEarly) {
  // 66 tiles make 33 clusters of 3 blocks with two tiles each, and each block takes at most 22 of
  // the 64 units.
  const Result<LinearPlan> plan = plan_linear(LinearFormat::kInt4Group128, 8192, 2112, 3, 4);
  ASSERT_TRUE(plan.ok());
  EXPECT_EQ(plan->clusters, 33);
  const Result<LinearLaunch> launch = plan_launch(*plan, 8, kH200SharedLimit);
  ASSERT_TRUE(launch.ok());
  EXPECT_EQ(launch->segment_units, 6);
  EXPECT_EQ(launch->input_stride_bytes, 22 * 128 * 2 + 16);
  EXPECT_EQ(launch->receive_places, 2);  // 4 halves of fragments over 3 blocks
  // If SMs may idle, the plan chooses 27 clusters of 4 blocks, each block with 3 tiles of 16 units,
  // instead of clusters of 2 blocks with 2 tiles of 32 units.
  const Result<LinearPlan> idle = plan_linear(LinearFormat::kInt4Group128, 8192, 2560, true);
  ASSERT_TRUE(idle.ok());
  EXPECT_EQ(idle->cluster_size, 4);
  EXPECT_EQ(idle->clusters, 27);
  EXPECT_EQ(plan_linear(LinearFormat::kInt4Group128, 8192, 2560)->cluster_size, 2);
  EXPECT_EQ(plan_linear(LinearFormat::kInt4Group128, 4096, 6144, true)->cluster_size, 2);
  // 64 tiles fit into 22 clusters with 3 tiles each.
  EXPECT_EQ(plan_linear(LinearFormat::kInt4Group128, 8192, 2048, 4, 4)->clusters, 22);
  EXPECT_EQ(plan_linear(LinearFormat::kInt4Group128, 8192, 2048, 2, 4)->clusters, 66);
}

TEST(LinearPlanCuda, EightRowsLeaveHalfAnSmToTheNextKernel) {
  for (const LinearFormat format :
       {LinearFormat::kInt4Group128, LinearFormat::kInt8Group64, LinearFormat::kBf16}) {
    for (const Shape& shape : kShapes) {
      const Result<LinearPlan> plan = plan_linear(format, shape.in, shape.out);
      ASSERT_TRUE(plan.ok());
      const Result<LinearLaunch> launch = plan_launch(*plan, 8, kH200SharedLimit);
      ASSERT_TRUE(launch.ok());
      EXPECT_LE(2 * (launch->shared_bytes + 1024), kH200SharedLimit + 1024)
          << shape.in << " x " << shape.out;
    }
  }
}

TEST(LinearPlanCuda, ABlockOfMoreThanHalfSharesAnSmWithHalfButNotWithItsLike) {
  constexpr int kReserved = 1024;  // reserved for each block, of an SM's kSm
  constexpr int kSm = kH200SharedLimit + kReserved;
  constexpr int kSmallKernelBytes = 2048;  // small kernels between two layers
  for (const LinearFormat format :
       {LinearFormat::kInt4Group128, LinearFormat::kInt8Group64, LinearFormat::kBf16}) {
    for (const int rows : {1, 4, 8, 16, 100}) {
      int most_half = 0, most_over = 0;  // largest footprints of layers that leave half
      for (const Shape& shape : kShapes) {
        const Result<LinearPlan> plan = plan_linear(format, shape.in, shape.out);
        ASSERT_TRUE(plan.ok());
        const Result<LinearLaunch> half = plan_launch(*plan, rows, kH200SharedLimit);
        const Result<LinearLaunch> over =
            plan_launch(*plan, rows, kH200SharedLimit, LinearFootprint::kOverHalf);
        ASSERT_TRUE(half.ok() && over.ok());
        if (over->schedule == half->schedule) {
          EXPECT_GE(over->stages, half->stages);
        }
        EXPECT_LE(over->shared_bytes, kH200SharedLimit);
        const int half_bytes = half->shared_bytes + kReserved;
        const int over_bytes = over->shared_bytes + kReserved;
        if (rows > 16) {
          EXPECT_EQ(over_bytes, half_bytes) << "tiles of rows may share an SM";
          continue;
        }
        EXPECT_GT(2 * over_bytes, kSm);
        if (2 * half_bytes > kSm - kSmallKernelBytes) continue;  // does not leave half
        most_half = std::max(most_half, half_bytes);
        most_over = std::max(most_over, over_bytes);
      }
      EXPECT_LE(most_half + most_over, kSm) << rows << " rows";
    }
  }
}

TEST(LinearPlanCuda, ActivationsOfSixteenRowsComeAtOnceWhereTheyFit) {
  const Result<LinearPlan> plan = plan_linear(LinearFormat::kInt4Group128, 8192, 2560);
  ASSERT_TRUE(plan.ok());
  for (const int rows : {8, 16}) {
    const Result<LinearLaunch> launch = plan_launch(*plan, rows, kH200SharedLimit);
    ASSERT_TRUE(launch.ok());
    EXPECT_EQ(launch->segments, 1);
    EXPECT_EQ(launch->row_tiles, 1);
    EXPECT_EQ(launch->stages, 2);
  }
}

TEST(LinearPlanCuda, Int4TakesNoMoreThanItsPublishedBits) {
  const Result<LinearPlan> plan = plan_linear(LinearFormat::kInt4Group128, 8192, 14336);
  ASSERT_TRUE(plan.ok());
  EXPECT_NEAR(static_cast<double>(plan->weight_bytes()) * 8 / (8192.0 * 14336.0), 4.16, 0.005);
}

TEST(LinearPlanCuda, RefusesWhatDoesNotFit) {
  EXPECT_EQ(plan_linear(LinearFormat::kInt4Group128, 4000, 64).status().code(),
            StatusCode::kUnsupported);
  EXPECT_EQ(plan_linear(LinearFormat::kBf16, 40, 64).status().code(), StatusCode::kUnsupported);
  EXPECT_EQ(plan_linear(LinearFormat::kBf16, 64, 64, 4, 1).status().code(),
            StatusCode::kInvalidArgument);
  for (const auto& [cluster_size, slice_k_warps] :
       {std::pair{0, 1}, {9, 1}, {2, 0}, {2, 3}, {2, 16}, {3, 8}}) {
    EXPECT_EQ(
        plan_linear(LinearFormat::kBf16, 4096, 64, cluster_size, slice_k_warps).status().code(),
        StatusCode::kInvalidArgument)
        << cluster_size << ", " << slice_k_warps;
  }
  const Result<LinearPlan> plan = plan_linear(LinearFormat::kBf16, 4096, 64);
  ASSERT_TRUE(plan.ok());
  EXPECT_EQ(plan_launch(*plan, 0, kH200SharedLimit).status().code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(plan_launch(*plan, 8, 4096).status().code(), StatusCode::kUnsupported);
}

TEST(LinearTilePlan, EveryChainIsOneBlocksAndPiecesKeepTheOrder) {
  constexpr int kMultiprocessors = 132;
  int split = 0;
  for (const LinearFormat format :
       {LinearFormat::kInt4Group128, LinearFormat::kInt8Group64, LinearFormat::kBf16}) {
    for (const Shape& shape : kShapes) {
      for (const int cluster_size : {1, 2, 3, 4, 8}) {
        for (const int slice_k_warps : {1, 2, 4, 8}) {
          const Result<LinearPlan> plan =
              plan_linear(format, shape.in, shape.out, cluster_size, slice_k_warps);
          if (!plan.ok()) continue;
          for (const int rows : {33, 64, 65, 128, 129, 256, 700, 1024}) {
            const LinearTiling tiling = plan_tiles(*plan, rows, kMultiprocessors);
            const int tiles = ceil_div(plan->tiles, kBlockTiles) * tiling.row_tiles;
            EXPECT_GE(tiling.row_tiles * tiling.tile_rows, rows);
            EXPECT_LT((tiling.row_tiles - 1) * tiling.tile_rows, rows);
            EXPECT_LE(tiling.tile_rows, kTileRows);
            EXPECT_EQ(tiling.tile_rows % 8, 0);
            EXPECT_EQ(tiling.splits * tiling.chains, cluster_size * slice_k_warps);
            EXPECT_LE(tiling.blocks, kMultiprocessors);
            EXPECT_LE(tiling.blocks, tiles * tiling.splits);
            EXPECT_EQ(tiling.blocks % tiling.splits, 0)
                << "blocks that share a tile must run at the same time";
            // Sums in registers do not extend beyond one block of a cluster.
            EXPECT_TRUE(tiling.chains_per_piece == 1 || tiling.chains_per_piece == slice_k_warps);
            EXPECT_EQ(tiling.chains % tiling.chains_per_piece, 0);
            if (tiling.splits == 1) continue;
            ++split;
            EXPECT_EQ(tiling.pieces * tiling.chains_per_piece, cluster_size * slice_k_warps);
            EXPECT_EQ(tiling.pieces % tiling.splits, 0);
            EXPECT_LE(tiling.pieces / tiling.splits, tiling.splits);
            const int max_rows = tiling.tile_rows <= kFewTileRows ? kFewTileRows : kTileRows;
            EXPECT_EQ(max_rows / 8 % tiling.splits, 0);
            EXPECT_LE(tiling.pieces * tiles, kMaxPieces);
            EXPECT_LE(tiles, kMaxSplitTiles);
          }
        }
      }
    }
  }
  EXPECT_GT(split, 100);
}

TEST(LinearTilePlan, WideTilesAreOfBf16WithOneChain) {
  const Result<LinearPlan> gate_up = plan_linear(LinearFormat::kBf16, 4096, 28672, 1, 1);
  ASSERT_TRUE(gate_up.ok());
  const LinearTiling wide = plan_tiles(*gate_up, 128, 132, /*may_be_wide=*/true);
  EXPECT_EQ(wide.block_tiles, kWideBlockTiles);
  EXPECT_EQ(wide.blocks, 112);
  EXPECT_EQ(plan_tiles(*gate_up, 128, 132).block_tiles, kBlockTiles);
  const Result<LinearPlan> chains = plan_linear(LinearFormat::kBf16, 4096, 28672, 2, 1);
  ASSERT_TRUE(chains.ok());
  EXPECT_EQ(plan_tiles(*chains, 128, 132, true).block_tiles, kBlockTiles);
  const Result<LinearPlan> int4 = plan_linear(LinearFormat::kInt4Group128, 4096, 28672, 1, 1);
  ASSERT_TRUE(int4.ok());
  EXPECT_EQ(plan_tiles(*int4, 128, 132, true).block_tiles, kBlockTiles);
}

TEST(LinearTilePlan, FillsTheGpuAtTheRowsOfABatch) {
  // These are the O and down projections of 8B, with 32 tiles at 128 rows.
  for (const Shape shape : {Shape{4096, 4096}, {14336, 4096}}) {
    for (const LinearFormat format :
         {LinearFormat::kInt4Group128, LinearFormat::kInt8Group64, LinearFormat::kBf16}) {
      const Result<LinearPlan> plan = plan_linear(format, shape.in, shape.out);
      ASSERT_TRUE(plan.ok());
      EXPECT_EQ(plan_tiles(*plan, 128, 132).blocks, 128);
      EXPECT_EQ(plan_tiles(*plan, 128, 132).splits, 4);
      EXPECT_EQ(plan_tiles(*plan, 256, 132).blocks, 128);
      EXPECT_EQ(plan_tiles(*plan, 256, 132).splits, 2);
      EXPECT_EQ(plan_tiles(*plan, 1024, 132).splits, 1);
    }
  }
}

}  // namespace
}  // namespace forerun::cuda
