// What a block of the cluster kernel of attention (attention_cluster_cuda.cu) makes of the linear
// layer's output: rotated queries and, where it has a row's last tile, the step's own keys and
// values. Each thread knows its part before the previous kernel has ended. Device code; included by
// the kernel alone.
#pragma once

#include <cuda_bf16.h>

#include <cstdint>

#include "kernels/attention/attention_cluster_args_cuda.h"
#include "kernels/attention/attention_load_cuda.h"
#include "kernels/attention/kv_layout_cuda.h"
#include "kernels/linear/ptx_cuda.h"

namespace forerun::cuda {

#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900

// A thread's two pieces of a query, half a head apart.
template <int kDim>
struct StagedQuery {
  static constexpr int kPairs = kDim / 16;  // threads a column
  __device__ __forceinline__ static void plan(const ClusterArgs& args, int row) {
    prefetch_angles(args.step, row, static_cast<int>(threadIdx.x) % kPairs, kDim);
  }
  // Of column thread / kPairs, head `head` of row `row` of the step.
  __device__ __forceinline__ static void stage(const ClusterArgs& args, int row, int head,
                                               uint32_t shared) {
    const int column = static_cast<int>(threadIdx.x) / kPairs;
    const int piece = static_cast<int>(threadIdx.x) % kPairs;
    const auto* const from =
        reinterpret_cast<const uint4*>(args.qkv + row * args.qkv_stride + head * kDim) + piece;
    const uint32_t to = shared + ClusterLayout<kDim>::kQueries + column * kPanelRowBytes;
    uint4 low = *from;
    uint4 high = *(from + kPairs);
    rotate_pieces(args.step, row, piece, kDim, low, high);
    store_shared_16(to + kv_piece(piece, column, kClusterColumns), low);
    store_shared_16(to + kv_piece(piece + kPairs, column, kClusterColumns), high);
  }
};

// A thread's two pieces of an extra key, and of its value.
template <int kDim>
struct StagedExtra {
  static constexpr int kPairs = kDim / 16;
  int slot = 0;       // in the cache, or ~row of this step
  int own_slot = -1;  // where the row's key and value are to be appended
  bool valid = false;

  // `appends`: the rows of the item go to the cache too.
  __device__ __forceinline__ void plan(const ClusterArgs& args, const AttentionItemCuda& item,
                                       bool appends) {
    const int extra = static_cast<int>(threadIdx.x) / kPairs;
    valid = extra < item.num_extras;
    if (!valid) return;
    slot = step_data<int32_t>(args.step, args.step->extras_offset)[item.extras + extra];
    if (slot >= 0) return;
    const int row = ~slot;
    if (appends && row >= item.first_row && row < item.first_row + item.num_rows) {
      own_slot = step_data<int32_t>(args.step, args.step->kv_slots_offset)[row];
    }
    prefetch_angles(args.step, row, static_cast<int>(threadIdx.x) % kPairs, kDim);
  }
  __device__ __forceinline__ void stage(const ClusterArgs& args, int kv_head,
                                        uint32_t shared) const {
    using Layout = ClusterLayout<kDim>;
    if (!valid) return;
    const int extra = static_cast<int>(threadIdx.x) / kPairs;
    const int piece = static_cast<int>(threadIdx.x) % kPairs;
    const int64_t value_offset = int64_t{args.kv_heads} * tile_bytes(kDim);
    const auto stored = [&](int at, int of_piece) {
      return reinterpret_cast<uint4*>(
          args.kv + at / kTilePositions * args.block_stride + int64_t{kv_head} * tile_bytes(kDim) +
          at % kTilePositions * kPanelRowBytes + kv_piece(of_piece, at));
    };
    const auto value_of = [&](uint4* key) {
      return reinterpret_cast<uint4*>(reinterpret_cast<std::byte*>(key) + value_offset);
    };
    uint4 low, high, value_low, value_high;
    if (slot >= 0) {
      low = *stored(slot, piece);
      high = *stored(slot, piece + kPairs);
      value_low = *value_of(stored(slot, piece));
      value_high = *value_of(stored(slot, piece + kPairs));
    } else {
      const __nv_bfloat16* const row = args.qkv + ~slot * args.qkv_stride + kv_head * kDim;
      const auto* const key = reinterpret_cast<const uint4*>(row + args.k_offset) + piece;
      const auto* const value = reinterpret_cast<const uint4*>(row + args.v_offset) + piece;
      low = *key;
      high = *(key + kPairs);
      value_low = *value;
      value_high = *(value + kPairs);
      rotate_pieces(args.step, ~slot, piece, kDim, low, high);
      if (own_slot >= 0) {
        uint4* const to = stored(own_slot, piece);
        uint4* const to_high = stored(own_slot, piece + kPairs);
        *to = low;
        *to_high = high;
        *value_of(to) = value_low;
        *value_of(to_high) = value_high;
      }
    }
    const uint32_t at = shared + extra * kPanelRowBytes + kv_piece(piece, extra, kClusterExtras);
    const uint32_t at_high =
        shared + extra * kPanelRowBytes + kv_piece(piece + kPairs, extra, kClusterExtras);
    store_shared_16(at + Layout::kExtraKeys, low);
    store_shared_16(at_high + Layout::kExtraKeys, high);
    store_shared_16(at + Layout::kExtraValues, value_low);
    store_shared_16(at_high + Layout::kExtraValues, value_high);
  }
};

#endif

}  // namespace forerun::cuda
