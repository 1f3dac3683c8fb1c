// Common code of the linear kernels for many rows (linear/cuda/tiles.cu,
// linear/cuda/wide_tiles.cu): a block has two consumer warpgroups that multiply and a producer
// warpgroup whose warps load weights, activations and the scales of rows. Device code; only the
// kernels include it.
#pragma once

#include <algorithm>
#include <cstdint>

#include "kernels/cuda/ptx.h"
#include "kernels/cuda/wgmma.h"
#include "kernels/linear/cuda/norm.h"
#include "kernels/linear/cuda/plan.h"
#include "kernels/linear/cuda/ring.h"
#include "kernels/linear/cuda/tile_plan.h"
#include "kernels/linear/cuda/tile_ring.h"

namespace forerun::cuda {

inline constexpr int kConsumerWarps = 8;
inline constexpr int kConsumers = kConsumerWarps * 32;
inline constexpr int kThreads = kConsumers + 128;  // setmaxnreg works on whole warpgroups
inline constexpr int kSharedLimit = 227 << 10;
// Bytes of barriers and the rows' scales; a multiple of the ring's alignment.
inline constexpr int kTileBarrierBytes = 1024;

// Returns the number of stages of a ring that begins at `offset` of a block's shared memory.
template <class Stage>
constexpr int tile_stages(int offset) {
  return std::min((kSharedLimit - offset) / Stage::kBytes, 8);
}

#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900

// Registers per thread of consumers and of producers.
constexpr int consumer_registers(LinearFormat format) {
  return format == LinearFormat::kBf16 ? 216 : 232;
}
constexpr int producer_registers(LinearFormat format) {
  return 504 - 2 * consumer_registers(format);
}
inline constexpr int kScaleWarps = 2;  // producer warps beside those that copy weights and
                                       // activations

// Waits for `count` threads of different blocks, all of which run at the same time (plan_tiles).
// Writes before this barrier are visible after it. Afterwards each of these threads must call
// leave() once.
__device__ __forceinline__ void meet(uint32_t* counter, uint32_t count, uint32_t* failed) {
  arrive_release(counter, 1);
  if (!wait_acquire(counter, count)) *failed = 1;
}
// Leaves the barrier. The last thread clears the counter, which no thread reads any more. This
// takes a round trip to the L2, for which only the calling warp waits.
__device__ __forceinline__ void leave(uint32_t* counter, uint32_t count) {
  if (atomicAdd(counter, 1) == 2 * count - 1) *counter = 0;
}

// Makes every block compute the scales of a few rows for all blocks. (If each block computed all
// scales of its tile, that would take longer than its products.) `shared_place` is shared memory
// for one scale per warp.
__device__ __forceinline__ void exchange_scales(const LinearKernelArgs& args,
                                                const TileSplit& split, uint32_t shared_place,
                                                int warp, int lane) {
  const InverseRms found{shared_place + warp * 4, 0};
  for (int row = static_cast<int>(blockIdx.x) * kScaleWarps + warp; row < args.rows;
       row += static_cast<int>(gridDim.x) * kScaleWarps) {
    found.compute_rows<1>(args, row, 0, lane);
    if (lane == 0) split.scratch.inverse_rms[row] = __uint_as_float(load_shared_4(found.scales));
  }
  if (lane == 0) {
    uint32_t* const counter = split.scratch.arrivals + kMaxSplitTiles;
    meet(counter, gridDim.x * kScaleWarps, split.scratch.failed);
    leave(counter, gridDim.x * kScaleWarps);
  }
  __syncwarp();
}

// A block's barriers, ring and scales; all its threads construct it together. Barriers and scales
// lie in the first kTileBarrierBytes of shared memory.
template <class Stage, int kStages, int kRingOffset>
struct TileFrame {
  TileRing<kStages, Stage::kBytes> ring;
  TileRing<1, kTileRows * 4> scales;  // scales of a tile's rows, loaded during its products
  // The scale that each of the kScaleWarps has just computed, behind the scales.
  static constexpr uint32_t kFoundOffset = kTileRows * 4;
  static_assert(kStages * 16 + 16 + kFoundOffset + kScaleWarps * 4 <= kTileBarrierBytes);

  __device__ __forceinline__ explicit TileFrame(uint32_t base) {
    ring.data = base + kRingOffset;
    ring.full = base;
    ring.empty = base + kStages * 8;
    scales.full = ring.empty + kStages * 8;
    scales.empty = scales.full + 8;
    scales.data = scales.full + 16;
    launch_dependents();
    if (threadIdx.x == 0) {
      for (int stage = 0; stage < kStages; ++stage) {
        barrier_init(ring.full + stage * 8, 2);  // arrivals for weights, activations
        barrier_init(ring.empty + stage * 8, kConsumers);
      }
      barrier_init(scales.full, kScaleWarps * 32);
      barrier_init(scales.empty, kConsumers);
      barrier_init_fence();
    }
    __syncthreads();
  }

  // Runs the producer warps over all of a block's work.
  __device__ __forceinline__ void produce(const LinearKernelArgs& args, const CUtensorMap& map,
                                          const TileSplit& split, int tiles, int warp, int lane) {
    warpgroup_reg_dealloc<producer_registers(Stage::kWeightFormat)>();
    // The warp that copies weights starts before the previous kernel's end.
    if (warp > kConsumerWarps) wait_for_previous_kernel();
    const int scale_warp = warp - kConsumerWarps - 2;
    if (scale_warp >= 0 && args.input_squares != nullptr) {
      exchange_scales(args, split, scales.data + kFoundOffset, scale_warp, lane);
    }
    for (int index = blockIdx.x; index < split.num_work_tiles; index += gridDim.x) {
      const TileWork work(args, split, index);
      if (warp == kConsumerWarps) {
        request_weights<Stage>(args, split, work, ring, tiles, lane);
      } else if (warp == kConsumerWarps + 1) {
        request_inputs<Stage>(args, split, work, map, ring, lane);
      } else if (args.input_squares != nullptr) {
        scales.wait_empty();
        for (int row = scale_warp * 32 + lane; row < kTileRows; row += kScaleWarps * 32) {
          const int of_input = min(work.first_row + row, args.rows - 1);
          store_shared_4(
              scales.address() + row * 4,
              __float_as_uint(load_word_through_l2(split.scratch.inverse_rms + of_input)));
        }
        barrier_arrive(scales.full_barrier());
        scales.advance();
      }
    }
  }
};

#endif

}  // namespace forerun::cuda
