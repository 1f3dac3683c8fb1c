// The kernel for many rows, as a template; linear/cuda/tiles.cu explains it. Only files that
// instantiate it include this header.
#pragma once

#include "kernels/cuda/ptx.h"
#include "kernels/cuda/wgmma.h"
#include "kernels/linear/cuda/output.h"
#include "kernels/linear/cuda/ring.h"
#include "kernels/linear/cuda/tile_frame.h"
#include "kernels/linear/cuda/tile_items.h"
#include "kernels/linear/cuda/tile_pieces.h"
#include "kernels/linear/cuda/tile_ring.h"
#include "kernels/linear/cuda/tile_unit.h"

namespace forerun::cuda {

// Layout of shared memory: barriers and scales; the finished sums of a block's tile, float4
// [tile][half][8 rows][lane] in the layout of mma; the ring.
template <class Stage>
struct TileShared {
  static constexpr int kRows = Stage::kRows;
  static constexpr int kSumBytes = kBlockTiles * kTileOutputs * kRows * 4;
  static constexpr int kRingOffset = kTileBarrierBytes + kSumBytes;
  static constexpr int kStages = tile_stages<Stage>(kRingOffset);
  static constexpr int kBytes = kRingOffset + kStages * Stage::kBytes;
  static_assert(kStages >= 3);
};

#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900

// Computes the sums of a warp's half tile and calls keep(piece, sums) for each piece of the block's
// chains.
template <class Stage, class Ring, class Keep>
__device__ __forceinline__ void multiply_tile(const LinearKernelArgs& args, const TileSplit& split,
                                              int part, Ring& ring, TileUnit<Stage>& product,
                                              Keep keep) {
  constexpr int kSums = Stage::kRows / 2;
  const TilePlace place;
  int chain_idx = part * split.chains;
  const int own_pieces =
      split.count_log2 == 0 ? args.cluster_size : split.pieces >> split.count_log2;
#pragma unroll 1
  for (int piece = part * own_pieces; piece < (part + 1) * own_pieces; ++piece) {
    float block[kSums];
#pragma unroll 1
    for (int i = 0; i < split.chains_per_piece; ++i) {
      float acc[kSums] = {};
      product.multiply_chain(ring, Chain(args, chain_idx).count, place.tile(), place.half(),
                             place.lane, acc);
      ++chain_idx;
#pragma unroll
      for (int at = 0; at < kSums; ++at) block[at] = i == 0 ? acc[at] : block[at] + acc[at];
    }
    product.finish(block);
    keep(piece, block);
  }
}

// Adds the sums of one block of a linear_kernel cluster to the sums of the earlier blocks, in
// shared memory.
template <class Stage>
__device__ __forceinline__ void keep_sums(uint32_t sums, bool first,
                                          const float (&block)[Stage::kRows / 2]) {
  const TilePlace warp;
  sums += sum_offset<Stage>(warp.tile(), warp.half(), 0, warp.lane);
#pragma unroll
  for (int n = 0; n < Stage::kN8Tiles; ++n) {
    const uint32_t place = sums + n * 512;
    float sum[4] = {block[4 * n], block[4 * n + 1], block[4 * n + 2], block[4 * n + 3]};
    if (!first) {
      const float4 before = load_shared_sums(place);
      sum[0] = before.x + sum[0];
      sum[1] = before.y + sum[1];
      sum[2] = before.z + sum[2];
      sum[3] = before.w + sum[3];
    }
    store_shared_sums(place, sum);
  }
}

// Writes the outputs of a block's share of a tile, or sends its sums to the group of GPUs. meet()
// returns once the sums are complete; other data of the first items are loaded before that.
// load_sums(tile, n8_tile, sums) loads a lane's finished sums of both halves.
template <class Stage, bool kGated, class Meet, class LoadSums>
__device__ __forceinline__ void store_tile(const LinearKernelArgs& args, const TileSplit& split,
                                           const TileWork& work, const InverseRms& scales,
                                           int tiles, const TilePlace& place, Meet meet,
                                           LoadSums load_sums) {
  const bool to_group = !kGated && args.peers.degree > 0;
  const bool loads = !kGated && !to_group;
  TileItems<Stage> items(split, work, tiles, place);
  OutputItem item = items.item();
  if (loads && items.has()) item.load(args);
  meet();
#pragma unroll 1
  while (items.has()) {
    float4 v[2];
    load_sums(items.tile(), items.n8_tile(), v);
    if (to_group) {
      push_item(args, item, v);
    } else {
      scales.apply(args, items.n8_tile() * 8 + (place.lane & 3) * 2, v);
      if constexpr (kGated) {
        store_gated(args, item.tile, place.lane >> 2, item.row, v);
      } else {
        finish_sums(args, item, v);
        store_plain(args, item, v);
      }
    }
    items.advance();
    item = items.item();
    if (loads && items.has()) item.load(args);
  }
}

template <LinearFormat kFormat, int kRows, int kBoxInputs, bool kGated, bool kShared>
__global__ void __launch_bounds__(kThreads, 1)
    linear_tiles_kernel(const __grid_constant__ LinearKernelArgs args,
                        const __grid_constant__ CUtensorMap map,
                        const __grid_constant__ TileSplit split, int tiles) {
  using Stage = TileStage<kFormat, kRows, kBoxInputs>;
  using Shared = TileShared<Stage>;
  const uint32_t base = kept_shared_address();
  const int lane = threadIdx.x % 32;
  const int warp = threadIdx.x / 32;
  TileFrame<Stage, Shared::kStages, Shared::kRingOffset> frame(base);
  auto& ring = frame.ring;
  auto& scales = frame.scales;
  if (warp >= kConsumerWarps) {
    frame.produce(args, map, split, tiles, warp, lane);
  } else {
    warpgroup_reg_alloc<consumer_registers(kFormat)>();
    wait_for_previous_kernel();
    const uint32_t sums = base + kTileBarrierBytes;
    TileUnit<Stage> product;
    for (int index = blockIdx.x; index < split.num_work_tiles; index += gridDim.x) {
      multiply_tile<Stage>(args, split, split.share_of(index), ring, product,
                           [&](int piece, const float(&block)[kRows / 2]) {
                             if constexpr (!kShared) {
                               keep_sums<Stage>(sums, piece == 0, block);
                             } else {
                               publish_piece<Stage>(split, TileWork(args, split, index), sums,
                                                    piece, block);
                             }
                           });
      if (args.input_squares != nullptr) scales.wait_full();
      const TileWork work(args, split, index);
      const TilePlace place;
      const InverseRms inverse_rms{scales.address(), 0};
      if constexpr (!kShared) {
        store_tile<Stage, kGated>(
            args, split, work, inverse_rms, tiles, place, [] { named_barrier(1, kConsumers); },
            [&](int tile, int n, float4(&v)[2]) {
#pragma unroll
              for (int half = 0; half < 2; ++half) {
                v[half] = load_shared_sums(sums + sum_offset<Stage>(tile, half, n, place.lane));
              }
            });
      } else {
        const float* const pieces =
            split.scratch.sums + static_cast<int64_t>(work.tile) * split.pieces * kPieceFloats;
        const int block_pieces_log2 = split.chains_per_piece == 1 ? args.slice_k_warps_log2 : 0;
        store_tile<Stage, kGated>(
            args, split, work, inverse_rms, tiles, place, [&] { meet_sharers(split, work.tile); },
            [&](int tile, int n, float4(&v)[2]) {
              add_pieces<Stage>(
                  split, work.split, pieces + sum_offset<Stage>(tile, 0, n, place.lane) / 4,
                  sums + own_offset<Stage>(split, 0, tile, 0, n, place.lane), block_pieces_log2, v);
            });
      }
      barrier_arrive(scales.empty_barrier());
      scales.advance();
      named_barrier(1, kConsumers);  // before the next sums are written
    }
    if (!kGated && args.peers.degree > 0) {
      PeerWait wait;
#pragma unroll 1
      for (int shot = 0; shot <= (args.two_shot ? 1 : 0); ++shot) {
        for (int index = blockIdx.x; index < split.num_work_tiles; index += gridDim.x) {
          TileItems<Stage> items(split, TileWork(args, split, index), tiles, TilePlace());
          for (; items.has(); items.advance()) {
            store_group_item(args, items.item(), /*adds=*/shot == 0, wait);
          }
        }
      }
      finish_collecting(args.peers);
    }
  }
}

#else

template <LinearFormat kFormat, int kRows, int kBoxInputs, bool kGated, bool kShared>
__global__ void linear_tiles_kernel(const __grid_constant__ LinearKernelArgs,
                                    const __grid_constant__ CUtensorMap,
                                    const __grid_constant__ TileSplit, int) {}

#endif

using TileKernel = void (*)(LinearKernelArgs, CUtensorMap, TileSplit, int);

struct TileVariant {
  TileKernel kernel;
  int shared_bytes;
  int box_inputs;
};
template <LinearFormat kFormat, int kRows, int kBoxInputs, bool kShared>
TileVariant tile_variant(bool gated) {
  TileKernel kernel = linear_tiles_kernel<kFormat, kRows, kBoxInputs, false, kShared>;
  if constexpr (kFormat != LinearFormat::kInt8Group64) {  // int8: only the LM head
    if (gated) kernel = linear_tiles_kernel<kFormat, kRows, kBoxInputs, true, kShared>;
  }
  return {kernel, TileShared<TileStage<kFormat, kRows, kBoxInputs>>::kBytes, kBoxInputs};
}

// Returns the variant of a grouped format (linear/cuda/grouped_tiles.cu). `few_rows` means at most
// kFewTileRows rows per tile; `shared` means that several blocks share a tile.
TileVariant grouped_tile_variant(LinearFormat format, bool few_rows, bool gated, bool shared);

}  // namespace forerun::cuda
