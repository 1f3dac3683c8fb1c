// The phases of the linear kernel for few rows; linear/cuda/linear.cu explains their purpose.
// Device code; only the kernel includes it.
#pragma once

#include <cstdint>

#include "kernels/cuda/ptx.h"
#include "kernels/linear/cuda/norm.h"
#include "kernels/linear/cuda/output.h"
#include "kernels/linear/cuda/ring.h"
#include "kernels/linear/cuda/unit.h"

namespace forerun::cuda {

#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900

// The work of one block. Its methods are in the order of execution: loads of weights and
// activations, products, sends of partial sums to the blocks that own them, outputs and, with a
// group of GPUs, the all-reduce (linear/cuda/output.h).
template <LinearFormat kFormat, int kN8Tiles, EpilogueKind kEpilogue, TileSchedule kSchedule>
struct LinearBlock {
  static constexpr bool kSinglePass =
      kSchedule == TileSchedule::kSinglePass || kSchedule == TileSchedule::kManyWarps;
  static constexpr int kUnitBytes = unit_bytes(kFormat);
  static constexpr int kStageBytes = stage_bytes(kFormat);
  static constexpr int kUnitInputs = unit_inputs(kFormat);
  // If registers allow, the data for the epilogue are loaded before the main loop, for a thread's
  // first item (up to 8 rows, its only item).
  static constexpr bool kLoadsEarly =
      kSchedule == TileSchedule::kSinglePass &&
      (kN8Tiles == 1 ? kEpilogue != EpilogueKind::kRuntime : kEpilogue == EpilogueKind::kPlain);
  // True if LinearLaunch has a producer warp when activations come in many segments.
  static constexpr bool kHasProducerWarp = !kSinglePass && has_producer_warp(kN8Tiles);
  // True if a block waits for the other blocks of its cluster after it has requested activations,
  // not before. This is faster at 16 rows and slower at 24 and 32 rows (8B int4).
  static constexpr bool kClusterWaitsLate = kN8Tiles == 2;
  using Accumulators = float[2][kN8Tiles][4];

  const LinearKernelArgs& args;
  const uint32_t base;  // address of the block's shared memory
  const int lane, warp, cta_rank;
  const int slice_k_warps, tile_warps;  // warps that share a tile; tiles in parallel
  const int input_warp, tile_warp;      // indices of this warp among them
  const int tile_begin, tile_end;       // tiles of the cluster
  const BlockUnits block;
  const int warp_tiles, first_row, rows, passes;
  const bool inputs_stay;
  UnitRing<kUnitBytes, kStageBytes, kSinglePass> ring;
  InputRing<kN8Tiles, kSinglePass> inputs;
  InverseRms scales;
  uint32_t receive_barriers;  // one per buffer
  PartialSums sums;
  Unit<kFormat> weights;
  OutputItem early = {};
  // The address in the first buffer of the activations that the lane loads, and the steps from unit
  // to unit and from one block of 8 rows to the next.
  uint32_t input_lane;
  int input_step, n8_tile_bytes;

  __device__ __forceinline__ LinearBlock(const LinearKernelArgs& args, uint32_t base, int cluster)
      : args(args),
        base(base),
        lane(threadIdx.x % 32),
        warp(threadIdx.x / 32),
        cta_rank(static_cast<int>(cluster_rank())),
        slice_k_warps(1 << args.slice_k_warps_log2),
        tile_warps(args.tile_warps),
        input_warp(warp & (slice_k_warps - 1)),
        tile_warp(warp >> args.slice_k_warps_log2),
        tile_begin(cluster * args.cluster_tiles + min(cluster, args.larger_clusters)),
        tile_end(tile_begin + args.cluster_tiles + (cluster < args.larger_clusters ? 1 : 0)),
        block(args, cta_rank),
        warp_tiles(kSinglePass ? tile_begin + tile_warp < tile_end
                               : (tile_end - tile_begin - tile_warp + tile_warps - 1) / tile_warps),
        first_row(blockIdx.y * 8 * kN8Tiles),
        rows(min(8 * kN8Tiles, args.rows - first_row)),
        passes(kSinglePass ? 1 : (tile_end - tile_begin + tile_warps - 1) / tile_warps),
        inputs_stay(args.segments == args.input_buffers) {}

  __device__ __forceinline__ void place_rings() {
    ring.next = args.weight + (static_cast<int64_t>(tile_begin + tile_warp) * args.units +
                               block.first + input_warp) *
                                  kUnitBytes;
    ring.policy = evict_first_policy();
    // The warps that share a tile take its units round-robin, so that they need the same segments
    // of activations.
    ring.tile_units = (block.count - input_warp + slice_k_warps - 1) >> args.slice_k_warps_log2;
    ring.left_in_tile = ring.tile_units;
    ring.tile_skip = tile_warps * args.units - ring.tile_units * slice_k_warps;
    ring.to_request = warp_tiles * ring.tile_units;
    ring.to_use = ring.to_request;
    ring.data = base + args.ring_offset + warp * args.stages * kStageBytes;
    ring.data_end = ring.data + args.stages * kStageBytes;
    ring.barrier = base + ring_barrier_offset(kN8Tiles) + warp * args.stages * 8;
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
    __syncwarp();  // any lane may be elected to issue copies
  }

  // Requests units into stages [begin, end) of the ring.
  __device__ __forceinline__ void fill_stages(int begin, int end) {
#pragma unroll 1
    for (int stage = begin; stage < end; ++stage) {
      ring.request(args, ring.data + stage * kStageBytes, ring.barrier + stage * 8);
    }
  }

  // The ring fills while the previous kernel still runs. Int4 layers of 9 rows and more request
  // only one unit per warp before the activations, since the copies of activations wait behind all
  // earlier copies of weights (8B at 16 rows on an H100: 2.17 ms with one unit, 2.24 with two).
  // bf16 layers multiply their units sooner and would become slower.
  static constexpr bool kFillsRingLate = kFormat == LinearFormat::kInt4Group128 && kN8Tiles > 1;
  __device__ __forceinline__ void load_weights() {
    fill_stages(0, kFillsRingLate ? 1 : args.stages);
    __syncthreads();
    cluster_arrive_relaxed();  // cluster_wait() follows in load_inputs(): a block must have started
                               // before others write to it
    prefetch_next_norm(args, tile_begin, tile_end);
  }

  // Loads the activations and the scales of their rows after the previous kernel has written them.
  __device__ __forceinline__ void load_inputs() {
    if constexpr (kLoadsEarly) {
      const OutputItems<kN8Tiles> items(args, tile_begin, tile_end - tile_begin, first_row,
                                        cta_rank);
      early = items.at(args, static_cast<int>(threadIdx.x));
      if (ends_plain<kEpilogue>(args)) early.load_weights(args);
    }
    const bool gathers = kEpilogue != EpilogueKind::kGated && args.row_index != nullptr;
    auto first_inputs = inputs.prepare(args, warp, lane);
    if constexpr (kN8Tiles == 1) {
      InverseRms::RowSquares squares = scales.prepare(args, first_row, rows, warp, lane);
      cluster_wait();
      wait_for_previous_kernel();
      if (gathers) {
        inputs.gather(args, first_inputs);
        scales.gather(args, first_row, squares);
      }
      scales.load(squares);
      inputs.request_first(args, first_inputs);
      if constexpr (kLoadsEarly) {
        if (ends_plain<kEpilogue>(args)) early.load_residual(args);
      }
      scales.compute(args, rows, lane, squares);
    } else {
      if constexpr (!kClusterWaitsLate) cluster_wait();
      wait_for_previous_kernel();
      if (gathers) inputs.gather(args, first_inputs);
      inputs.request_first(args, first_inputs);
      if constexpr (kFillsRingLate) fill_stages(1, args.stages);
      if constexpr (kLoadsEarly) early.load_residual(args);
      scales.template compute<kN8Tiles>(args, first_row, rows, warp, lane);
    }
    // A lane loads row lane % 8 of each block of 8 rows (or the last row, if there are fewer), 8 of
    // every 32 inputs.
    const int row_to_load = kN8Tiles == 1 ? min(lane & 7, args.input_rows - 1) : lane & 7;
    input_lane = inputs.data + input_warp * (kUnitInputs * 2) +
                 row_to_load * args.input_stride_bytes + (lane >> 3) * 16;
    input_step = (kUnitInputs * 2) << args.slice_k_warps_log2;
    n8_tile_bytes = 8 * args.input_stride_bytes;
    if constexpr (Unit<kFormat>::kAhead) weights.load_ahead(args, ring, lane);
    if constexpr (kClusterWaitsLate) cluster_wait();
  }

  __device__ __forceinline__ void expect_sums(int tiles) const {
    if (threadIdx.x == 0) {
      barrier_arrive_expect_tx(sums.barrier, sums.bytes(args, tiles * kN8Tiles));
    }
  }

  __device__ __forceinline__ void begin_tile() {
    if constexpr (is_grouped(kFormat)) {
      weights.template begin_tile<kN8Tiles>(args, lane, first_row, block.first + input_warp);
    }
  }

  // Multiplies all tiles at once, with a warp's inputs in one segment.
  __device__ __forceinline__ void single_pass() {
    sums.buffer = base + args.receive_offset;
    sums.barrier = receive_barriers;
    const int tiles = tile_end - tile_begin;
    expect_sums(tiles);
    Accumulators acc = {};
    begin_tile();
    barrier_wait(inputs.full, 0);
    uint32_t input = input_lane;
#pragma unroll 1
    for (int unit = warp_tiles * ring.tile_units; unit > 0; --unit, input += input_step) {
      weights.template multiply<kN8Tiles>(args, ring, lane, input, n8_tile_bytes, acc);
    }
    weights.finish(acc);
    // The following values are computed again, since they would occupy registers during the loop.
    const int thread = static_cast<int>(kLoadsEarly ? threadIdx.x : opaque(threadIdx.x));
    const int owner = static_cast<int>(cluster_rank());
    const int tile = thread / 32 >> args.slice_k_warps_log2;
    sums.cta_rank = owner;
    if (tile < tiles) {
      const int part_bytes = args.stages * kStageBytes;
      send_sums<kN8Tiles, true>(
          args, sums, acc, base + args.ring_offset + (tile << args.slice_k_warps_log2) * part_bytes,
          part_bytes, tile, thread / 32 & (slice_k_warps - 1), slice_k_warps, thread % 32);
    }
    const OutputItems<kN8Tiles> items(args, tile_begin, tiles, first_row, owner);
    if constexpr (kLoadsEarly && kN8Tiles == 1) {
      store_item<kEpilogue>(args, sums, 0, scales, items, items.first(), early);
    } else if constexpr (kLoadsEarly) {
      store_sums<kEpilogue>(args, sums, 0, scales, items, items.first(), early);
    } else {
      store_sums<kEpilogue>(args, sums, 0, scales, items);
    }
    if (ends_in_sum<kEpilogue>(args)) store_group_sums(args, items);
  }

  // The position of a warp in the ring of activations.
  struct InputCursor {
    int buffer = 0;
    uint32_t parity = 0;   // parity of the buffer's full barrier
    bool is_first = true;  // no segment has been released yet
  };
  // Releases the cursor's segment. Without a producer warp, warp 0 also refills a buffer.
  __device__ __forceinline__ void release_segment(InputCursor& at) {
    if (inputs_stay) {
      if (++at.buffer == args.segments) at.buffer = 0;
      return;
    }
    __syncwarp();
    if (lane == 0) barrier_arrive(inputs.empty + at.buffer * 8);
    if (!kHasProducerWarp && warp == 0 && inputs.left > 0) {
      // With more than two buffers, the buffer of the previous segment is refilled: the slowest
      // warp has had time to finish it.
      if (args.input_buffers == 2 || !at.is_first) inputs.refill(args, lane);
      at.is_first = false;
    }
    if (++at.buffer == args.input_buffers) {
      at.buffer = 0;
      at.parity ^= 1;
    }
  }

  // Runs the producer warp, which refills each buffer as soon as all other warps have released it.
  __device__ __forceinline__ void produce_inputs() {
    __syncthreads();  // the barriers are initialized
    cluster_arrive_relaxed();
    cluster_wait();
    wait_for_previous_kernel();
    inputs.count_first(args);
#pragma unroll 1
    while (inputs.left > 0) inputs.refill(args, lane);
  }

  // Multiplies `tile_warps` tiles at a time, over all segments of the inputs.
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
      begin_tile();
      for (int segment = 0; segment < args.segments; ++segment) {
        barrier_wait(inputs.full + at.buffer * 8, at.parity);
        const int units = min(units_left, args.segment_units);
        units_left -= units;
        uint32_t input =
            input_lane + at.buffer * inputs.buffer_rows(args) * args.input_stride_bytes;
        for (int unit = 0; unit < units; ++unit, input += input_step) {
          weights.template multiply<kN8Tiles>(args, ring, lane, input, n8_tile_bytes, acc);
        }
        release_segment(at);
      }
      weights.finish(acc);
      if (tile_warp < tiles) {
        constexpr int kPartBytes = kN8Tiles * 512;
        send_sums<kN8Tiles, false>(
            args, sums, acc, base + args.slice_k_offset + tile_warp * slice_k_warps * kPartBytes,
            kPartBytes, tile_warp, input_warp, slice_k_warps, lane);
      }
      const OutputItems<kN8Tiles> items(args, pass, tiles, first_row, cta_rank);
      store_sums<kEpilogue>(args, sums, passes_done >> 1 & 1, scales, items);
      // Blocks of the cluster that are one pass ahead write to the other buffer. No block is two
      // passes ahead: it would first have to receive the sums that every warp of this block sends
      // in the next pass, after it has read this buffer (plan_linear() ensures that every block
      // owns sums of each pass but the last).
      ++passes_done;
    }
    if (ends_in_sum<kEpilogue>(args)) {
      store_group_sums(args, OutputItems<kN8Tiles>(args, tile_begin, tile_end - tile_begin,
                                                   first_row, cta_rank));
    }
  }
};

#endif

}  // namespace forerun::cuda
