// The phases of the linear kernel for few rows (linear/cuda/linear.cu, which says what they are
// made for). Device code; included by the kernel alone.
#pragma once

#include <cstdint>

#include "kernels/cuda/ptx.h"
#include "kernels/linear/cuda/norm.h"
#include "kernels/linear/cuda/output.h"
#include "kernels/linear/cuda/ring.h"
#include "kernels/linear/cuda/unit.h"

namespace forerun::cuda {

#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900

// A block at work, in the order of its members: weights and activations on their way, products,
// sums handed to the blocks that own them, outputs and, with a group, its sums
// (linear/cuda/output.h).
template <LinearFormat kFormat, int kRowBlocks, LinearEpilogue kEpilogue, TileSchedule kSchedule>
struct LinearBlock {
  static constexpr bool kSinglePass =
      kSchedule == TileSchedule::kSinglePass || kSchedule == TileSchedule::kManyWarps;
  static constexpr int kUnitBytes = unit_bytes(kFormat);
  static constexpr int kStageBytes = stage_bytes(kFormat);
  static constexpr int kUnitInputs = unit_inputs(kFormat);
  // With registers to spare, what the last step reads is asked for before the main loop: of a
  // thread's first item, which up to 8 rows is the only one.
  static constexpr bool kLoadsEarly = kSchedule == TileSchedule::kSinglePass &&
                                      (kRowBlocks == 1 ? kEpilogue != LinearEpilogue::kRuntime
                                                       : kEpilogue == LinearEpilogue::kPlain);
  // Whether LinearLaunch has a feeding warp where activations come in many segments.
  static constexpr bool kFeedsApart = !kSinglePass && feeds_apart(kRowBlocks);
  // Whether blocks meet the others of their cluster behind the requests for activations: 8B int4 at
  // 16 rows 2.15 ms, before them 2.17, but at 24 and 32 rows 0.5% more.
  static constexpr bool kClusterWaitsLate = kRowBlocks == 2;
  using Accumulators = float[2][kRowBlocks][4];

  const LinearKernelArgs& args;
  const uint32_t base;  // of the block's shared memory
  const int lane, warp, cta_rank;
  const int input_warps, tile_warps;  // warps that share a tile; tiles at a time
  const int input_warp, tile_warp;    // which of them this one is
  const int tile_begin, tile_end;     // of the cluster
  const BlockUnits block;
  const int warp_tiles, first_row, rows, passes;
  const bool inputs_stay;
  UnitRing<kUnitBytes, kStageBytes, kSinglePass> ring;
  InputRing<kRowBlocks, kSinglePass> inputs;
  InverseRms scales;
  uint32_t receive_barriers;  // one per buffer
  PartialSums sums;
  Unit<kFormat> weights;
  OutputItem early = {};
  // What a lane loads of the activations: its address in the first buffer, what a unit and what a
  // block of 8 rows add to it.
  uint32_t input_lane;
  int input_step, row_block_bytes;

  __device__ __forceinline__ LinearBlock(const LinearKernelArgs& args, uint32_t base, int cluster)
      : args(args),
        base(base),
        lane(threadIdx.x % 32),
        warp(threadIdx.x / 32),
        cta_rank(static_cast<int>(cluster_rank())),
        input_warps(1 << args.input_warps_log2),
        tile_warps(args.tile_warps),
        input_warp(warp & (input_warps - 1)),
        tile_warp(warp >> args.input_warps_log2),
        tile_begin(cluster * args.cluster_tiles + min(cluster, args.larger_clusters)),
        tile_end(tile_begin + args.cluster_tiles + (cluster < args.larger_clusters ? 1 : 0)),
        block(args, cta_rank),
        warp_tiles(kSinglePass ? tile_begin + tile_warp < tile_end
                               : (tile_end - tile_begin - tile_warp + tile_warps - 1) / tile_warps),
        first_row(blockIdx.y * 8 * kRowBlocks),
        rows(min(8 * kRowBlocks, args.rows - first_row)),
        passes(kSinglePass ? 1 : (tile_end - tile_begin + tile_warps - 1) / tile_warps),
        inputs_stay(args.segments == args.input_buffers) {}

  __device__ __forceinline__ void place_rings() {
    ring.next = args.weight + (static_cast<int64_t>(tile_begin + tile_warp) * args.units +
                               block.first + input_warp) *
                                  kUnitBytes;
    ring.policy = evict_first_policy();
    // The warps that share a tile take its units one after the other, so that they want the same
    // activations.
    ring.tile_units = (block.count - input_warp + input_warps - 1) >> args.input_warps_log2;
    ring.left_in_tile = ring.tile_units;
    ring.tile_skip = tile_warps * args.units - ring.tile_units * input_warps;
    ring.to_request = warp_tiles * ring.tile_units;
    ring.to_use = ring.to_request;
    ring.data = base + args.ring_offset + warp * args.stages * kStageBytes;
    ring.data_end = ring.data + args.stages * kStageBytes;
    ring.barrier = base + ring_barrier_offset(kRowBlocks) + warp * args.stages * 8;
    inputs.data = base + kBarrierBytes;
    inputs.full = base;
    inputs.empty = inputs.full + kInputSegments * 8;
    inputs.block_bytes = block.count * kUnitInputs * 2;
    inputs.block_inputs = args.input + static_cast<int64_t>(block.first) * kUnitInputs;
    inputs.first_row = first_row;
    inputs.rows = rows;
    inputs.left = passes == 0 ? 0 : args.segments * (inputs_stay ? 1 : passes);
    receive_barriers = inputs.empty + kInputSegments * 8;
    scales.ready = receive_barriers + 16;
    scales.scales = scales.ready + 8;
    sums.cta_rank = cta_rank;
  }

  __device__ __forceinline__ void init_barriers() const {
    if (lane == 0) {
#pragma unroll 1
      for (int stage = 0; stage < args.stages; ++stage) {
        barrier_init(ring.barrier + stage * 8, 1);
      }
      if (warp == 0) {
        for (int i = 0; i < 2; ++i) barrier_init(receive_barriers + i * 8, 1);
        barrier_init(scales.ready, args.warps);
        for (int i = 0; i < kInputSegments; ++i) {
          barrier_init(inputs.full + i * 8, 1);
          barrier_init(inputs.empty + i * 8, args.warps);
        }
      }
      barrier_init_fence();
    }
    __syncwarp();  // the lane that asks for copies is any
  }

  // Stages [begin, end) of the ring.
  __device__ __forceinline__ void fill_stages(int begin, int end) {
#pragma unroll 1
    for (int stage = begin; stage < end; ++stage) {
      ring.request(args, ring.data + stage * kStageBytes, ring.barrier + stage * 8);
    }
  }

  // The ring fills while the previous kernel still runs. Of int4 from 9 rows on no more than a unit
  // a warp: the copies of activations wait behind all weights that the copy engine was asked for
  // before them (8B at 16 rows 2.24 ms with two units ahead of them, 2.17 with one). bf16, whose
  // units are multiplied sooner, loses by it (8B at 24 rows 4.55 ms, so 4.62).
  static constexpr bool kFillsRingLate = kFormat == LinearFormat::kInt4Group128 && kRowBlocks > 1;
  __device__ __forceinline__ void load_weights() {
    fill_stages(0, kFillsRingLate ? 1 : args.stages);
    __syncthreads();
    cluster_arrive_relaxed();  // matched below: no block is written to before it has started
    prefetch_next_norm(args, tile_begin, tile_end);
  }

  // The activations and the scales of their rows, once the previous kernel has written them.
  __device__ __forceinline__ void load_inputs() {
    if constexpr (kLoadsEarly) {
      const OutputItems<kRowBlocks> items(args, tile_begin, tile_end - tile_begin, first_row,
                                          cta_rank);
      early = items.at(args, static_cast<int>(threadIdx.x));
      if (ends_plain<kEpilogue>(args)) early.load_weights(args);
    }
    const bool chooses = kEpilogue != LinearEpilogue::kGated && args.row_index != nullptr;
    auto first_inputs = inputs.prepare(args, warp, lane);
    if constexpr (kRowBlocks == 1) {
      InverseRms::RowSquares squares = scales.prepare(args, first_row, rows, warp, lane);
      cluster_wait();
      wait_for_previous_kernel();
      if (chooses) {
        inputs.choose(args, first_inputs);
        scales.choose(args, first_row, squares);
      }
      scales.load(squares);
      inputs.request_first(args, first_inputs);
      if constexpr (kLoadsEarly) {
        if (ends_plain<kEpilogue>(args)) early.load_residual(args);
      }
      scales.find(args, rows, lane, squares);
    } else {
      if constexpr (!kClusterWaitsLate) cluster_wait();
      wait_for_previous_kernel();
      if (chooses) inputs.choose(args, first_inputs);
      inputs.request_first(args, first_inputs);
      if constexpr (kFillsRingLate) fill_stages(1, args.stages);
      if constexpr (kLoadsEarly) early.load_residual(args);
      scales.template find<kRowBlocks>(args, first_row, rows, warp, lane);
    }
    // A lane's part: row lane % 8 of each block of 8, or the last where there are fewer, 8 of every
    // 32 inputs.
    const int row_to_load = kRowBlocks == 1 ? min(lane & 7, args.input_rows - 1) : lane & 7;
    input_lane = inputs.data + input_warp * (kUnitInputs * 2) +
                 row_to_load * args.input_stride_bytes + (lane >> 3) * 16;
    input_step = (kUnitInputs * 2) << args.input_warps_log2;
    row_block_bytes = 8 * args.input_stride_bytes;
    if constexpr (Unit<kFormat>::kAhead) weights.load_ahead(args, ring, lane);
    if constexpr (kClusterWaitsLate) cluster_wait();
  }

  __device__ __forceinline__ void expect_sums(int tiles) const {
    if (threadIdx.x == 0) {
      barrier_arrive_expect_tx(sums.barrier, sums.bytes(args, tiles * kRowBlocks));
    }
  }

  // All tiles at once, a warp's inputs in one segment.
  __device__ __forceinline__ void single_pass() {
    sums.buffer = base + args.receive_offset;
    sums.barrier = receive_barriers;
    const int tiles = tile_end - tile_begin;
    expect_sums(tiles);
    Accumulators acc = {};
    barrier_wait(inputs.full, 0);
    uint32_t input = input_lane;
#pragma unroll 1
    for (int unit = warp_tiles * ring.tile_units; unit > 0; --unit, input += input_step) {
      weights.template multiply<kRowBlocks>(args, ring, lane, input, row_block_bytes, acc);
    }
    weights.finish(acc);
    // What follows is found again: it would take registers all through the loop.
    const int thread = static_cast<int>(kLoadsEarly ? threadIdx.x : opaque(threadIdx.x));
    const int owner = static_cast<int>(cluster_rank());
    const int tile = thread / 32 >> args.input_warps_log2;
    sums.cta_rank = owner;
    if (tile < tiles) {
      const int part_bytes = args.stages * kStageBytes;
      send_sums<kRowBlocks, true>(
          args, sums, acc, base + args.ring_offset + (tile << args.input_warps_log2) * part_bytes,
          part_bytes, tile, thread / 32 & (input_warps - 1), input_warps, thread % 32);
    }
    const OutputItems<kRowBlocks> items(args, tile_begin, tiles, first_row, owner);
    if constexpr (kLoadsEarly && kRowBlocks == 1) {
      store_item<kEpilogue>(args, sums, 0, scales, items, items.first(), early);
    } else if constexpr (kLoadsEarly) {
      store_sums<kEpilogue>(args, sums, 0, scales, items, items.first(), early);
    } else {
      store_sums<kEpilogue>(args, sums, 0, scales, items);
    }
    if (ends_in_sum<kEpilogue>(args)) store_group_sums(args, items);
  }

  // Where a warp is among the buffers of activations.
  struct InputCursor {
    int buffer = 0;  // and whether it has been filled an even number of times before
    uint32_t parity = 0;
    bool is_first = true;  // no segment has been released before
  };
  // Done with the cursor's segment. Without a feeding warp warp 0 has a buffer filled again.
  __device__ __forceinline__ void release_segment(InputCursor& at) {
    if (inputs_stay) {
      if (++at.buffer == args.segments) at.buffer = 0;
      return;
    }
    __syncwarp();
    if (lane == 0) barrier_arrive(inputs.empty + at.buffer * 8);
    if (!kFeedsApart && warp == 0 && inputs.left > 0) {
      // With more than two buffers, that of the segment before this one: the slowest warp has had
      // time to finish it.
      if (args.input_buffers == 2 || !at.is_first) inputs.refill(args, lane);
      at.is_first = false;
    }
    if (++at.buffer == args.input_buffers) {
      at.buffer = 0;
      at.parity ^= 1;
    }
  }

  // By the feeding warp: has each buffer filled again as soon as all others are done with it.
  __device__ __forceinline__ void feed_inputs() {
    __syncthreads();  // barriers are there
    cluster_arrive_relaxed();
    cluster_wait();
    wait_for_previous_kernel();
    inputs.count_first(args);
#pragma unroll 1
    while (inputs.left > 0) inputs.refill(args, lane);
  }

  // As many tiles at a time as there are warps for, over all segments of the inputs.
  __device__ __forceinline__ void multi_pass() {
    uint32_t passes_done = 0;
    InputCursor at;
    for (int pass = tile_begin; pass < tile_end; pass += tile_warps) {
      const int tiles = min(tile_warps, tile_end - pass);
      sums.buffer = base + args.receive_offset + (passes_done & 1) * args.receive_buffer_bytes;
      sums.barrier = receive_barriers + (passes_done & 1) * 8;
      expect_sums(tiles);
      Accumulators acc = {};
      int units_left = tile_warp < tiles ? ring.tile_units : 0;
      for (int segment = 0; segment < args.segments; ++segment) {
        barrier_wait(inputs.full + at.buffer * 8, at.parity);
        const int units = min(units_left, args.segment_units);
        units_left -= units;
        uint32_t input =
            input_lane + at.buffer * inputs.buffer_rows(args) * args.input_stride_bytes;
        for (int unit = 0; unit < units; ++unit, input += input_step) {
          weights.template multiply<kRowBlocks>(args, ring, lane, input, row_block_bytes, acc);
        }
        release_segment(at);
      }
      weights.finish(acc);
      if (tile_warp < tiles) {
        constexpr int kPartBytes = kRowBlocks * 512;
        send_sums<kRowBlocks, false>(
            args, sums, acc, base + args.slice_k_offset + tile_warp * input_warps * kPartBytes,
            kPartBytes, tile_warp, input_warp, input_warps, lane);
      }
      const OutputItems<kRowBlocks> items(args, pass, tiles, first_row, cta_rank);
      store_sums<kEpilogue>(args, sums, passes_done >> 1 & 1, scales, items);
      // Blocks of the cluster that are a pass ahead write to the other buffer. None is two ahead:
      // it would have had to receive what every warp here sends a pass later, after reading this
      // one (plan_linear() sees to it that every block owns some of that).
      ++passes_done;
    }
    if (ends_in_sum<kEpilogue>(args)) {
      store_group_sums(args, OutputItems<kRowBlocks>(args, tile_begin, tile_end - tile_begin,
                                                     first_row, cta_rank));
    }
  }
};

#endif

}  // namespace forerun::cuda
