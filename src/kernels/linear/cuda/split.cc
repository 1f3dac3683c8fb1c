// Chooses the split of a weight (linear/cuda/plan.h) by a rough estimate of a launch's time.
#include <algorithm>
#include <limits>
#include <string>

#include "base/status_macros.h"
#include "kernels/linear/cuda/plan.h"

namespace forerun::cuda {
namespace {

Status check_shape(LinearFormat format, int64_t in_features, int64_t out_features) {
  const int step = unit_inputs(format);
  if (in_features < step || in_features % step != 0 || out_features < 1) {
    return {StatusCode::kUnsupported, linear_shape_text(in_features, out_features) +
                                          ": on a GPU the inputs must be a multiple of " +
                                          std::to_string(step)};
  }
  if (in_features > (1 << 20) || out_features > (1 << 24)) {
    return {StatusCode::kUnsupported,
            linear_shape_text(in_features, out_features) + " is too large"};
  }
  return {};
}

constexpr int kSharedLimitOfSm90 = 227 << 10;

// Returns an approximate time in cycles of one launch at 8 rows; only the order of the splits
// matters. It adds up: the units of the busiest warp or, if there are many warps, of the busiest
// block (slower with few units in flight); the block's activations from the L2 (slower in
// segments); passes; the exchange of sums between warps; warps without a tile. The costs are fitted
// to all splits over 1 and 2 blocks of the layers of 70B over 2, 3 and 4 GPUs, 8B, 3B and 1B
// (linear_cuda_bench --splits), except the costs of warps without a tile and of idle SMs, which are
// fitted to whole forward passes of 70B.
double estimated_cycles(const LinearPlan& plan, const LinearLaunch& launch) {
  struct Costs {
    double block_unit, warp_unit, few_stages, pass, shared_tile, eight_warps, segments, idle_warp;
  };
  constexpr Costs kInt4 = {98, 618, 1.0, 777, 378, 645, 1700, 800};
  constexpr Costs kBf16 = {20, 164, 1.4, 740, 70, 0, 108, 0};  // bf16 and the other formats
  constexpr double kL2BytesPerCycle = 60;
  // Large clusters leave some SMs without a block.
  constexpr double kGapCycles = 500;
  Costs costs = plan.format == LinearFormat::kInt4Group128 ? kInt4 : kBf16;
  costs.block_unit = unit_format(plan.format).block_cycles;
  costs.warp_unit = unit_format(plan.format).warp_cycles;
  const int tiles = ceil_div(plan.tiles, plan.clusters);
  const int units = ceil_div(plan.units, plan.cluster_size);
  const int passes = ceil_div(tiles, launch.tile_warps);
  double cycles =
      std::max(costs.block_unit * (launch.stages < 3 ? costs.few_stages : 1.0) * tiles * units,
               costs.warp_unit * passes * ceil_div(units, plan.slice_k_warps));
  cycles += units * unit_inputs(plan.format) * 8 * 2 / kL2BytesPerCycle;
  if (launch.segments > 1) cycles += costs.segments * passes;
  if (launch.schedule == TileSchedule::kMultiPass) cycles += costs.pass * passes;
  if (plan.cluster_size > 2) cycles += kGapCycles;
  if (plan.slice_k_warps > 1) cycles += costs.shared_tile;
  if (plan.slice_k_warps == 1) cycles += costs.idle_warp * std::max(0, kLinearWarps - tiles);
  if (plan.slice_k_warps == 8) cycles += costs.eight_warps;
  return cycles;
}

}  // namespace

std::string linear_shape_text(int64_t in_features, int64_t out_features) {
  return "a linear layer of " + std::to_string(in_features) + " inputs and " +
         std::to_string(out_features) + " outputs";
}

Result<LinearPlan> plan_linear(LinearFormat format, int64_t in_features, int64_t out_features,
                               int cluster_size, int slice_k_warps) {
  FORERUN_RETURN_IF_ERROR(check_shape(format, in_features, out_features));
  LinearPlan plan;
  plan.format = format;
  plan.in_features = in_features;
  plan.out_features = out_features;
  plan.tiles = static_cast<int>((out_features + kTileOutputs - 1) / kTileOutputs);
  plan.units = static_cast<int>(in_features / unit_inputs(format));
  plan.cluster_size = cluster_size;
  plan.slice_k_warps = slice_k_warps;
  // In every pass but the last each block must own sums; otherwise it would run ahead of its peers
  // and write into buffers that they still read. A tile of 8 rows has two halves to own.
  const int max_product = std::min(plan.units, 2 * kLinearWarps);
  const bool possible =
      cluster_size >= 1 && cluster_size <= kMaxClusterSize &&
      (slice_k_warps == 1 || slice_k_warps == 2 || slice_k_warps == 4 || slice_k_warps == 8);
  if (!possible || cluster_size * slice_k_warps > max_product) {
    return Status(StatusCode::kInvalidArgument,
                  linear_shape_text(in_features, out_features) + " cannot be split over " +
                      std::to_string(cluster_size) + " blocks of " + std::to_string(slice_k_warps) +
                      " warps by input; accepted: 1 to 8 blocks of 1, 2, 4 or 8 warps, at most " +
                      std::to_string(max_product) + " warps in all");
  }
  plan.clusters = max_clusters(cluster_size);
  // Larger clusters do not fill the GPU anyway: use no more of them than needed to finish as early.
  if (cluster_size > 2) {
    plan.clusters = ceil_div(plan.tiles, ceil_div(plan.tiles, plan.clusters));
  }
  return plan;
}

Result<LinearPlan> plan_linear(LinearFormat format, int64_t in_features, int64_t out_features,
                               bool may_idle_sms) {
  FORERUN_RETURN_IF_ERROR(check_shape(format, in_features, out_features));
  double least = std::numeric_limits<double>::infinity();
  LinearPlan best;
  for (const int cluster_size : {1, 2, 4}) {
    // Four blocks of grouped formats take longer than two (QKV of 8B in q6_k at 8 rows: 14.6 us
    // instead of 9.7).
    if (cluster_size > 2 && (!may_idle_sms || is_grouped(format))) continue;
    for (const int slice_k_warps : {1, 2, 4, 8}) {
      const Result<LinearPlan> plan =
          plan_linear(format, in_features, out_features, cluster_size, slice_k_warps);
      if (!plan.ok()) continue;
      // If there are fewer tiles than SMs, one block per tile would leave some SMs idle.
      if (cluster_size == 1 && plan->tiles < max_clusters(1) && plan->units > 1) continue;
      // The split must depend only on the shape, so it does not use the current GPU's limit.
      const Result<LinearLaunch> launch = plan_launch(*plan, 8, kSharedLimitOfSm90);
      const double cycles =
          launch.ok() ? estimated_cycles(*plan, *launch) : std::numeric_limits<double>::max();
      if (cycles < least) {
        least = cycles;
        best = *plan;
      }
    }
  }
  return best;
}

}  // namespace forerun::cuda
