#include "kernels/linear/cuda/plan.h"

#include <algorithm>
#include <string>

#include "base/status_macros.h"

namespace forerun::cuda {
namespace {

// Shared memory that the hardware reserves for each block on an SM. The limit per block is that of
// a block alone on an SM.
constexpr int kReservedBytes = 1 << 10;
// Shared memory of an SM for small kernels between two layers.
constexpr int kSmallKernelBytes = 2 << 10;
constexpr int kMoreThanHalfBytes = 128;
// With up to 8 rows, an int4 layer with kOverHalf may exceed half by this and kSmallKernelBytes if
// it then has all activations at once; the int4 layers beside it have as much less. This serves the
// down projection of a third of 70B (3% faster on three GPUs).
constexpr int kUnevenBytes = 1 << 10;
static_assert(kMoreThanHalfBytes < kSmallKernelBytes / 2, "a block of half must fit beside it");
// Units that a warp has in flight. With fewer units the memory idles while the warp computes. With
// more units, they delay the activations of the previous layer, beside which they are loaded. bf16
// has little arithmetic and gains from up to six units at up to 8 rows. Int4 loses by more than
// two, except for a third unit at up to 8 rows if all activations are loaded at once. With many
// warps, a single pass with one unit per warp is better than several passes, but two units are
// better still. (Measured on whole forward passes of 1B and 8B.)
constexpr int kWantedStages = 2;
constexpr int kBf16Stages = 4;  // takes precedence over having all activations at once
// Returns the number of stages of another format that have as many bytes.
constexpr int wanted_stages(LinearFormat format) {
  return kBf16Stages * stage_bytes(LinearFormat::kInt8Group64) / stage_bytes(format);
}
static_assert(wanted_stages(LinearFormat::kBf16) == kBf16Stages);
constexpr int max_stages(LinearFormat format, int n8_tiles, TileSchedule schedule) {
  if (format != LinearFormat::kInt4Group128) return n8_tiles == 1 ? kMaxStages : kBf16Stages;
  return n8_tiles == 1 && schedule == TileSchedule::kSinglePass ? 3 : kWantedStages;
}
// Shared memory for segments of 8 rows of activations (a segment of one unit per warp may take
// more), in order of preference.
struct SegmentBuffers {
  int buffers, bytes;
};
constexpr SegmentBuffers kSegmentBuffers[] = {{2, 36 << 10}, {2, 18 << 10}, {2, 9 << 10},
                                              {3, 36 << 10}, {3, 18 << 10}, {3, 9 << 10},
                                              {4, 36 << 10}, {4, 18 << 10}, {4, 9 << 10}};
// Int4 prefers all activations at once, or few segments: copies of later segments queue behind the
// weights for as long as a ring takes to fill (QKV of 70B over 4 GPUs at 8 rows: 8.0 us in four
// segments, 7.1 in one). From 9 rows on (two n8 tiles) it prefers this even if the block then takes
// a whole SM, so that the next layer cannot start beside it (all layers of a quarter of 70B at 16
// rows: 5.5 ms in segments, 4.55 at once).
constexpr SegmentBuffers kInt4SegmentBuffers = {4, 80 << 10};
constexpr int kInt4WideInputBytes = 192 << 10;  // for all rows, from 9 rows on, in two buffers
static_assert(kInt4SegmentBuffers.buffers <= kInputSegments);

// Returns the groups of 8 rows that share the registers of weights.
int n8_tiles_of(int rows) { return rows <= 8 ? 1 : rows <= 16 ? 2 : 4; }

// Returns the stride in bytes of a row of `units` units in shared memory: an odd multiple of 16
// bytes, so that the 8 rows of a matrix load start in different banks.
int input_stride(const LinearPlan& plan, int units) {
  return units * unit_inputs(plan.format) * 2 + 16;
}

// Lays out shared memory: barriers, up to four segments of activations, the sums that warps of a
// group exchange (in the rings if there is one pass), the sums that other blocks send (two buffers;
// one if there is one pass), and the rings in the rest of `limit`. `stages` is below 1 if nothing
// remains.
LinearLaunch lay_out(const LinearPlan& plan, int rows, TileSchedule schedule, int limit,
                     int input_buffers, int max_input_bytes) {
  const int n8_tiles = n8_tiles_of(rows);
  LinearLaunch launch;
  launch.n8_tiles = n8_tiles;
  launch.row_tiles = ceil_div(rows, 8 * n8_tiles);
  const bool one_pass = schedule != TileSchedule::kMultiPass;
  const int cluster_tiles = ceil_div(plan.tiles, plan.clusters);
  launch.schedule = schedule;
  launch.tile_warps = std::max(1, kLinearWarps / plan.slice_k_warps);
  if (one_pass) launch.tile_warps = std::max(launch.tile_warps, cluster_tiles);
  const int warps = launch.tile_warps * plan.slice_k_warps;
  const int block_units = ceil_div(plan.units, plan.cluster_size);
  const int warp_units = ceil_div(block_units, plan.slice_k_warps);
  int input_bytes = 0;
  for (launch.segment_units = warp_units;; --launch.segment_units) {
    launch.segments = ceil_div(warp_units, launch.segment_units);
    launch.input_stride_bytes =
        input_stride(plan, std::min(launch.segment_units * plan.slice_k_warps, block_units));
    launch.input_buffers = std::min(launch.segments, input_buffers);
    // With fewer rows, several buffers would not all begin at multiples of 128 bytes.
    launch.input_rows = n8_tiles == 1 && launch.segments == 1 ? rows : 8 * n8_tiles;
    input_bytes = launch.input_buffers * launch.input_rows * launch.input_stride_bytes;
    if (one_pass || launch.segment_units <= 1 || input_bytes <= max_input_bytes * n8_tiles) {
      break;
    }
  }
  launch.producer_warps =
      has_producer_warp(n8_tiles) && launch.segments > launch.input_buffers ? 1 : 0;
  const int buffers = cluster_tiles > launch.tile_warps ? 2 : 1;
  const int reduce_bytes = plan.slice_k_warps > 1 && !one_pass ? warps * n8_tiles * 512 : 0;
  launch.receive_places =
      ceil_div(2 * std::min(launch.tile_warps, cluster_tiles) * n8_tiles, plan.cluster_size);
  launch.receive_buffer_bytes = launch.receive_places * plan.cluster_size * 512;
  launch.slice_k_offset = kBarrierBytes + input_bytes;
  launch.receive_offset = launch.slice_k_offset + reduce_bytes;
  launch.ring_offset =
      (launch.receive_offset + buffers * launch.receive_buffer_bytes + 127) / 128 * 128;
  const int ring_stage_bytes = warps * stage_bytes(plan.format);
  launch.stages =
      std::min({(limit - launch.ring_offset) / ring_stage_bytes,
                max_stages(plan.format, n8_tiles, schedule), ring_barriers(n8_tiles) / warps});
  launch.shared_bytes = launch.ring_offset + launch.stages * ring_stage_bytes;
  return launch;
}

// Lays out a single pass, if there are enough warps and shared memory for it; otherwise `stages` is
// 0. bf16, which has little arithmetic, prefers four stages to having all activations at once or
// more warps.
LinearLaunch lay_out_single_pass(const LinearPlan& plan, int rows, int limit) {
  const bool int4 = plan.format == LinearFormat::kInt4Group128;
  const int warps = plan.slice_k_warps * std::max(kLinearWarps / plan.slice_k_warps,
                                                  ceil_div(plan.tiles, plan.clusters));
  const bool many = warps > kLinearWarps;
  LinearLaunch launch =
      lay_out(plan, rows, many ? TileSchedule::kManyWarps : TileSchedule::kSinglePass, limit, 1, 0);
  const int wanted = !int4  ? std::min(wanted_stages(plan.format),
                                       max_stages(plan.format, launch.n8_tiles, launch.schedule))
                     : many ? 1
                            : kWantedStages;
  // The sums that warps exchange are stored in their rings.
  const bool exchange_fits =
      plan.slice_k_warps == 1 || launch.stages * stage_bytes(plan.format) >= launch.n8_tiles * 1024;
  if (warps > (int4 ? kMaxLinearWarps : kLinearWarps) || launch.stages < wanted || !exchange_fits) {
    launch.stages = 0;
  }
  return launch;
}

// Returns the shared memory that each of two blocks on an SM may request.
int half_of_multiprocessor(int shared_limit) {
  return (shared_limit + kReservedBytes) / 2 - kReservedBytes;
}

// Limits of shared memory for a layer, and for a kOverHalf layer that has all activations at once.
// Two blocks of consecutive layers share an SM, so that the second can load its weights while the
// first computes.
struct SmemLimits {
  int half, over_half;
};
SmemLimits smem_limits(const LinearPlan& plan, int n8_tiles, int shared_limit) {
  const int half = half_of_multiprocessor(shared_limit);
  if (plan.format == LinearFormat::kInt4Group128 && n8_tiles == 1) {
    return {half - kSmallKernelBytes / 2 - kUnevenBytes,
            half + kSmallKernelBytes / 2 + kUnevenBytes};
  }
  return {half - kSmallKernelBytes / 2, half + kMoreThanHalfBytes};
}

// Lays out several passes over the tiles, with activations in as few segments as int4 prefers.
// `stages` is 0 if that leaves too few units in flight.
LinearLaunch lay_out_few_segments(const LinearPlan& plan, int rows, int half, int shared_limit) {
  const int n8_tiles = n8_tiles_of(rows);
  if (n8_tiles == 1) {
    LinearLaunch launch = lay_out(plan, rows, TileSchedule::kMultiPass, half,
                                  kInt4SegmentBuffers.buffers, kInt4SegmentBuffers.bytes);
    if (launch.stages < kWantedStages) launch.stages = 0;
    return launch;
  }
  const SegmentBuffers segments = {2, kInt4WideInputBytes / n8_tiles};
  if (n8_tiles == 2) {
    const LinearLaunch launch =
        lay_out(plan, rows, TileSchedule::kMultiPass, half, segments.buffers, segments.bytes);
    if (launch.segments == 1 && launch.stages >= kWantedStages) return launch;
  }
  LinearLaunch launch =
      lay_out(plan, rows, TileSchedule::kMultiPass, shared_limit, segments.buffers, segments.bytes);
  if (launch.stages < (n8_tiles == 2 ? kWantedStages : 1)) launch.stages = 0;
  return launch;
}

// Lays out several passes over the tiles, with activations in the first of kSegmentBuffers that
// leaves enough units in flight within `limit` (or any, if `is_all`: `limit` is the whole shared
// memory). `stages` is 0 if none does.
LinearLaunch lay_out_segments(const LinearPlan& plan, int rows, int limit, bool is_all) {
  LinearLaunch launch;
  for (const SegmentBuffers& segments : kSegmentBuffers) {
    launch = lay_out(plan, rows, TileSchedule::kMultiPass, limit, segments.buffers, segments.bytes);
    if (is_all && launch.stages < kWantedStages) {
      // Takes smaller segments, if that leaves enough units in flight.
      const int missing = (kWantedStages - launch.stages) * kLinearWarps * stage_bytes(plan.format);
      const LinearLaunch smaller =
          lay_out(plan, rows, TileSchedule::kMultiPass, limit, segments.buffers,
                  segments.bytes - missing / launch.n8_tiles);
      if (smaller.stages >= kWantedStages) launch = smaller;
    }
    if (launch.stages >= (is_all ? 1 : kWantedStages)) return launch;
  }
  launch.stages = 0;
  return launch;
}

// Plans a launch. With up to 8 rows, it leaves shared memory for another launch if possible. From
// 9 rows on (two n8 tiles) it takes a whole SM if it otherwise could not have all activations at
// once or would have too few units in flight.
Result<LinearLaunch> plan_for_rows(const LinearPlan& plan, int rows, int shared_limit,
                                   LinearFootprint footprint) {
  if (rows < 1) {
    return Status(StatusCode::kInvalidArgument,
                  "linear on a GPU: found " + std::to_string(rows) + " rows; accepted: at least 1");
  }
  const int n8_tiles = n8_tiles_of(rows);
  const SmemLimits limits = smem_limits(plan, n8_tiles, shared_limit);
  LinearLaunch launch = lay_out_single_pass(
      plan, rows, footprint == LinearFootprint::kOverHalf ? limits.over_half : limits.half);
  if (launch.stages < 1 && n8_tiles > 1) launch = lay_out_single_pass(plan, rows, shared_limit);
  if (launch.stages < 1 && plan.format == LinearFormat::kInt4Group128) {
    launch = lay_out_few_segments(plan, rows, limits.half, shared_limit);
  }
  if (launch.stages < 1 && n8_tiles < 4) {
    launch = lay_out_segments(plan, rows, limits.half, /*is_all=*/false);
  }
  if (launch.stages < 1) launch = lay_out_segments(plan, rows, shared_limit, /*is_all=*/true);
  if (launch.stages >= 1) return launch;
  return Status(StatusCode::kUnsupported,
                linear_shape_text(plan.in_features, plan.out_features) + ": " +
                    std::to_string(8 * n8_tiles) + " rows do not fit in the " +
                    std::to_string(shared_limit) + " bytes of shared memory of a block");
}

}  // namespace

Result<LinearLaunch> plan_launch(const LinearPlan& plan, int rows, int shared_limit,
                                 LinearFootprint footprint) {
  FORERUN_ASSIGN_OR_RETURN(LinearLaunch launch, plan_for_rows(plan, rows, shared_limit, footprint));
  // Fewer than 8 rows request as much as 8 rows: three smaller blocks could be placed on one SM and
  // none on another (docs/log/2026-11-22-linear-rules.md).
  if (footprint != LinearFootprint::kOverHalf && rows < 8) {
    const Result<LinearLaunch> eight = plan_for_rows(plan, 8, shared_limit, footprint);
    if (eight.ok()) launch.shared_bytes = std::max(launch.shared_bytes, eight->shared_bytes);
  }
  const int over_half = half_of_multiprocessor(shared_limit) + kMoreThanHalfBytes;
  // Several tiles of rows may share an SM anyway.
  if (footprint == LinearFootprint::kOverHalf && launch.row_tiles == 1) {
    launch.shared_bytes = std::max(launch.shared_bytes, over_half);
  }
  if (footprint == LinearFootprint::kBesideAttention &&
      launch.schedule == TileSchedule::kManyWarps && launch.n8_tiles == 2 &&
      plan.cluster_size <= 2 && launch.shared_bytes <= over_half) {
    launch.shared_bytes = over_half;
    launch.few_registers = true;
  }
  return launch;
}

}  // namespace forerun::cuda
