// Linear layers for many rows: blocks that stay on their SM and take tiles of 128 outputs x 128
// rows in turn. One warp brings weights (their units as they lie in memory) and activations (a
// tensor map's boxes) into a ring; two warpgroups of 64 outputs multiply, weights as the operand
// from registers, so that int4 becomes f16 on the way.
//
// A row has the same bits as from linear_kernel: wgmma adds up 16 inputs exactly as mma does, and
// the plan's split of the inputs is kept: the chains of units that there are warps' and blocks' are
// computed one after the other and added in the order in which they would be there.
#include <algorithm>
#include <string>

#include "device/cuda/cuda_error.h"
#include "device/cuda/cuda_tensor_map.h"
#include "kernels/launch_cuda.h"
#include "kernels/linear/linear_output_cuda.h"
#include "kernels/linear/linear_tile_ring_cuda.h"
#include "kernels/linear/linear_tile_unit_cuda.h"
#include "kernels/linear/linear_tiles_cuda.h"
#include "kernels/linear/ptx_cuda.h"
#include "kernels/linear/wgmma_cuda.h"

namespace forerun::cuda {
namespace {

constexpr int kConsumerWarps = 8;
constexpr int kConsumers = kConsumerWarps * 32;
constexpr int kThreads = kConsumers + 128;  // registers change hands between warpgroups
constexpr int kSharedLimit = 227 << 10;
constexpr int kTileBarrierBytes = 1024;  // with the rows' scales; keeps what follows aligned

// Shared memory: barriers and scales; the finished sums of a block's tile, float4 [tile][half][8
// rows][lane] as mma has them; the ring.
template <class Stage>
struct TileShared {
  static constexpr int kRows = Stage::kRows;
  static constexpr int kSumBytes = kBlockTiles * kTileOutputs * kRows * 4;
  static constexpr int kRingOffset = kTileBarrierBytes + kSumBytes;
  static constexpr int kStages = (kSharedLimit - kRingOffset) / Stage::kBytes < 8
                                     ? (kSharedLimit - kRingOffset) / Stage::kBytes
                                     : 8;
  static constexpr int kBytes = kRingOffset + kStages * Stage::kBytes;
  static_assert(kStages >= 3 && kStages * 16 + 16 + kRows * 4 <= kTileBarrierBytes);
};

#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900

// Registers a thread of those that multiply, and of those that copy.
constexpr int consumer_registers(LinearFormat format) {
  return format == LinearFormat::kBf16 ? 216 : 232;
}
constexpr int producer_registers(LinearFormat format) {
  return 504 - 2 * consumer_registers(format);
}
constexpr int kScaleWarps = 3;  // beside the one that copies

// Where the sums of 8 rows of half a tile lie, of one lane.
template <int kRows>
__device__ __forceinline__ uint32_t sum_offset(int tile, int half, int n, int lane) {
  return (((tile * 2 + half) * (kRows / 8) + n) * 32 + lane) * 16;
}

// The sums of a warp's half tile, all chains, to their place in shared memory.
template <class Stage, class Ring>
__device__ __forceinline__ void multiply_tile(const LinearKernelArgs& args, Ring& ring,
                                              TileUnit<Stage>& product, uint32_t sums, int tile,
                                              int half, int lane) {
  constexpr int kRows = Stage::kRows;
  for (int rank = 0; rank < args.cluster_size; ++rank) {
    float block[kRows / 2];
    for (int input_warp = 0; input_warp < 1 << args.input_warps_log2; ++input_warp) {
      float acc[kRows / 2] = {};
      product.multiply_chain(ring, Chain(args, rank, input_warp).count, tile, half, lane, acc);
#pragma unroll
      for (int i = 0; i < kRows / 2; ++i) block[i] = input_warp == 0 ? acc[i] : block[i] + acc[i];
    }
    product.finish(block);
#pragma unroll
    for (int n = 0; n < kRows / 8; ++n) {
      const uint32_t place = sums + sum_offset<kRows>(tile, half, n, lane);
      float sum[4] = {block[4 * n], block[4 * n + 1], block[4 * n + 2], block[4 * n + 3]};
      if (rank > 0) {
        const float4 before = load_shared_sums(place);
        sum[0] = before.x + sum[0];
        sum[1] = before.y + sum[1];
        sum[2] = before.z + sum[2];
        sum[3] = before.w + sum[3];
      }
      store_shared_sums(place, sum);
    }
  }
}

// Calls visit(item, tile, n) for what a lane owns of a block's tile, a warp 8 rows of 32 outputs at
// a time: rows n * 8 and on of the block's output tile `tile`. For whole warps.
template <int kRows, class Visit>
__device__ __forceinline__ void visit_items(const LinearKernelArgs& args, int tiles, int first_tile,
                                            int first_row, int warp, int lane, Visit visit) {
  constexpr int kRowBlocks = kRows / 8;
  for (int part = warp; part < kBlockTiles * kRowBlocks; part += kConsumerWarps) {
    const int tile = part / kRowBlocks;
    const int n = part % kRowBlocks;
    if (first_tile + tile >= tiles || first_row + n * 8 >= args.rows) continue;
    OutputItem item = {};
    item.tile = first_tile + tile;
    item.lane = lane;
    item.row = first_row + n * 8 + (lane & 3) * 2;
    visit(item, tile, n);
  }
}

// Writes the outputs of a block's tile, or sends its sums to the group.
template <int kRows, bool kGated>
__device__ __forceinline__ void store_tile(const LinearKernelArgs& args, uint32_t sums,
                                           const RowScales& scales, int tiles, int first_tile,
                                           int first_row, int warp, int lane) {
  const auto store = [&](OutputItem item, int tile, int n) {
    const bool to_group = !kGated && args.peers.degree > 0;
    if (!kGated && !to_group) item.load(args);
    float4 v[2];
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      v[half] = load_shared_sums(sums + sum_offset<kRows>(tile, half, n, lane));
    }
    if (to_group) {
      push_item(args, item, v);
      return;
    }
    scales.apply(args, n * 8 + (lane & 3) * 2, v);
    if constexpr (kGated) {
      store_gated(args, item.tile, lane >> 2, item.row, v);
    } else {
      finish_sums(args, item, v);
      store_plain(args, item, v);
    }
  };
  visit_items<kRows>(args, tiles, first_tile, first_row, warp, lane, store);
}

template <LinearFormat kFormat, int kRows, int kBoxInputs, bool kGated>
__global__ void __launch_bounds__(kThreads, 1)
    linear_tiles_kernel(const __grid_constant__ LinearKernelArgs args,
                        const __grid_constant__ CUtensorMap map, int tiles) {
  using Stage = TileStage<kFormat, kRows, kBoxInputs>;
  using Shared = TileShared<Stage>;
  extern __shared__ __align__(1024) std::byte shared[];
  const uint32_t base = shared_address(shared);
  const int lane = threadIdx.x % 32;
  const int warp = threadIdx.x / 32;
  TileRing<Shared::kStages, Stage::kBytes> ring;
  ring.data = base + Shared::kRingOffset;
  ring.full = base;
  ring.empty = base + Shared::kStages * 8;
  TileRing<1, kRows * 4> scales;  // of the rows of a tile, found while it is multiplied
  scales.full = ring.empty + Shared::kStages * 8;
  scales.empty = scales.full + 8;
  scales.data = scales.full + 16;
  launch_dependents();
  if (threadIdx.x == 0) {
    for (int stage = 0; stage < Shared::kStages; ++stage) {
      barrier_init(ring.full + stage * 8, 1);
      barrier_init(ring.empty + stage * 8, kConsumers);
    }
    barrier_init(scales.full, kScaleWarps * 32);
    barrier_init(scales.empty, kConsumers);
    barrier_init_fence();
  }
  __syncthreads();
  wait_for_previous_kernel();

  // Row tiles change fastest, so that blocks that run together share weights.
  const int row_tiles = (args.rows + kRows - 1) / kRows;
  const int works = (tiles + kBlockTiles - 1) / kBlockTiles * row_tiles;
  if (warp >= kConsumerWarps) {
    give_registers_back<producer_registers(kFormat)>();
    for (int work = blockIdx.x; work < works; work += gridDim.x) {
      const int first_row = work % row_tiles * kRows;
      if (warp == kConsumerWarps) {
        request_tile<Stage>(args, map, ring, tiles, work / row_tiles * kBlockTiles, first_row,
                            lane);
      } else if (args.input_squares != nullptr) {
        scales.wait_empty();
        constexpr int kAtOnce = kFormat == LinearFormat::kBf16 ? 2 : 1;
        for (int row = (warp - kConsumerWarps - 1) * kAtOnce; row < kRows;
             row += kScaleWarps * kAtOnce) {
          RowScales{scales.address(), 0}.find_rows<kAtOnce>(args, first_row, row, lane);
        }
        barrier_arrive(scales.full_barrier());
        scales.advance();
      }
    }
  } else {
    take_registers<consumer_registers(kFormat)>();
    const uint32_t sums = base + kTileBarrierBytes;
    TileUnit<Stage> product;
    for (int work = blockIdx.x; work < works; work += gridDim.x) {
      multiply_tile<Stage>(args, ring, product, sums, warp / 2, warp % 2, lane);
      if (args.input_squares != nullptr) scales.wait_full();
      named_barrier(1, kConsumers);
      store_tile<kRows, kGated>(args, sums, RowScales{scales.address(), 0}, tiles,
                                work / row_tiles * kBlockTiles, work % row_tiles * kRows, warp,
                                lane);
      barrier_arrive(scales.empty_barrier());
      scales.advance();
      named_barrier(1, kConsumers);  // before the next sums
    }
    if (!kGated && args.peers.degree > 0) {
      PeerWait wait;
#pragma unroll 1
      for (int shot = 0; shot <= (args.two_shot ? 1 : 0); ++shot) {
        const auto store = [&](const OutputItem& item, int, int) {
          store_group_item(args, item, /*adds=*/shot == 0, wait);
        };
        for (int work = blockIdx.x; work < works; work += gridDim.x) {
          visit_items<kRows>(args, tiles, work / row_tiles * kBlockTiles, work % row_tiles * kRows,
                             warp, lane, store);
        }
      }
      finish_collecting(args.peers);
    }
  }
}

#else

template <LinearFormat kFormat, int kRows, int kBoxInputs, bool kGated>
__global__ void linear_tiles_kernel(const __grid_constant__ LinearKernelArgs,
                                    const __grid_constant__ CUtensorMap, int) {}

#endif

constexpr int kRows = 128;
using Kernel = void (*)(LinearKernelArgs, CUtensorMap, int);

struct Variant {
  Kernel kernel;
  int shared_bytes;
  int box_inputs;
};
template <LinearFormat kFormat, int kBoxInputs>
Variant variant(bool gated) {
  return {gated ? linear_tiles_kernel<kFormat, kRows, kBoxInputs, true>
                : linear_tiles_kernel<kFormat, kRows, kBoxInputs, false>,
          TileShared<TileStage<kFormat, kRows, kBoxInputs>>::kBytes, kBoxInputs};
}
// Wide boxes where a chain's inputs are neighbours: rows of 64 bytes come more slowly.
Variant variant(LinearFormat format, int input_warps, bool gated) {
  if (format == LinearFormat::kInt4Group128) return variant<LinearFormat::kInt4Group128, 64>(gated);
  return input_warps == 1 ? variant<LinearFormat::kBf16, 64>(gated)
                          : variant<LinearFormat::kBf16, 32>(gated);
}

}  // namespace

Status prepare_linear_tiles() {
  for (const LinearFormat format : {LinearFormat::kInt4Group128, LinearFormat::kBf16}) {
    for (const int input_warps : {1, 2}) {
      for (const bool gated : {false, true}) {
        const Variant tiles = variant(format, input_warps, gated);
        FORERUN_CUDA_RETURN_IF_ERROR(
            cudaFuncSetAttribute(tiles.kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                 tiles.shared_bytes),
            "loading the linear kernels for many rows");
      }
    }
  }
  return {};
}

Status launch_linear_tiles(const LinearPlan& plan, const LinearCall& call,
                           const LinearKernelArgs& args, cudaStream_t stream) {
  FORERUN_ASSIGN_OR_RETURN(const int multiprocessors, multiprocessor_count());
  const Variant tiles = variant(plan.format, plan.input_warps, call.gated);
  FORERUN_ASSIGN_OR_RETURN(const CUtensorMap map,
                           tensor_map_16_bit(call.input, call.rows, plan.in_features,
                                             call.input_stride, kRows, tiles.box_inputs));
  const int blocks =
      (plan.tiles + kBlockTiles - 1) / kBlockTiles * ((call.rows + kRows - 1) / kRows);
  return launch_dependent(tiles.kernel,
                          dim3(static_cast<unsigned>(std::min(blocks, multiprocessors))),
                          dim3(kThreads), static_cast<size_t>(tiles.shared_bytes), stream,
                          "launching a linear layer for many rows", args, map, plan.tiles);
}

}  // namespace forerun::cuda
