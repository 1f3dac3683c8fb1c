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

// A thread's angles wait in shared memory for the previous kernel's end: where a row's lie.
template <int kDim>
__device__ __forceinline__ uint32_t angles_at(uint32_t shared, int slot, int piece) {
  return shared + ClusterLayout<kDim>::kAngles + slot * (kDim * 4) + piece * 32;
}

// Two pieces of a key or query in shared memory, half a head apart, which the thread has copied.
__device__ __forceinline__ void rotate_staged(uint32_t low_at, uint32_t high_at, uint32_t angles,
                                              int dim, uint4& low, uint4& high) {
  PieceAngles of_row;
  of_row.take_up(angles, dim);
  low = load_shared_16(low_at);
  high = load_shared_16(high_at);
  of_row.rotate_pieces(low, high);
  store_shared_16(low_at, low);
  store_shared_16(high_at, high);
}

// A thread's two pieces of a query. Copies without registers on the way: few are free.
template <int kDim>
struct StagedQuery {
  static constexpr int kPairs = kDim / 16;  // threads a column
  bool valid = false;
  const uint4* from = nullptr;
  uint32_t angles = 0;

  // Of column thread / kPairs, head `head` of row `row` of the step, number `slot` of the item.
  __device__ __forceinline__ void plan(const ClusterArgs& args, int row, int head, int slot,
                                       uint32_t shared) {
    const int piece = static_cast<int>(threadIdx.x) % kPairs;
    valid = true;
    from = reinterpret_cast<const uint4*>(args.qkv + row * args.qkv_stride + head * kDim) + piece;
    angles = angles_at<kDim>(shared, slot, piece);
    PieceAngles of_row;
    of_row.load(args.step, row, piece, kDim);
    of_row.put_aside(angles, kDim);
  }
  __device__ __forceinline__ uint32_t at(uint32_t shared, int piece) const {
    const int column = static_cast<int>(threadIdx.x) / kPairs;
    return shared + ClusterLayout<kDim>::kQueries + column * kPanelRowBytes +
           kv_piece(static_cast<int>(threadIdx.x) % kPairs + piece, column, kClusterColumns);
  }
  __device__ __forceinline__ void copy(uint32_t shared) const {
    if (!valid) return;
    copy_16_async(at(shared, 0), from, true);
    copy_16_async(at(shared, kPairs), from + kPairs, true);
  }
  __device__ __forceinline__ void rotate_own(uint32_t shared) const {
    if (!valid) return;
    uint4 low, high;
    rotate_staged(at(shared, 0), at(shared, kPairs), angles, kDim, low, high);
  }
};

// A thread's two pieces of an extra key, and of its value.
template <int kDim>
struct StagedExtra {
  using Layout = ClusterLayout<kDim>;
  static constexpr int kPairs = kDim / 16;
  int slot = 0;       // in the cache, or ~row of this step
  int own_slot = -1;  // where the row's key and value are to be appended
  bool valid = false;
  uint32_t angles = 0;

  // `appends`: the rows of the item go to the cache too.
  __device__ __forceinline__ void plan(const ClusterArgs& args, const AttentionItemCuda& item,
                                       bool appends, uint32_t shared) {
    const int extra = static_cast<int>(threadIdx.x) / kPairs;
    valid = extra < item.num_extras;
    if (!valid) return;
    slot = step_data<int32_t>(args.step, args.step->extras_offset)[item.extras + extra];
    if (slot >= 0) return;
    const int row = ~slot;
    if (appends && row >= item.first_row && row < item.first_row + item.num_rows) {
      own_slot = step_data<int32_t>(args.step, args.step->kv_slots_offset)[row];
    }
    const int piece = static_cast<int>(threadIdx.x) % kPairs;
    angles = angles_at<kDim>(shared, kGroupRows + extra, piece);
    PieceAngles of_row;
    of_row.load(args.step, row, piece, kDim);
    of_row.put_aside(angles, kDim);
  }
  __device__ __forceinline__ void copy(const ClusterArgs& args, int kv_head,
                                       uint32_t shared) const {
    if (!valid) return;
    const int piece = static_cast<int>(threadIdx.x) % kPairs;
    const __nv_bfloat16* const row = args.qkv + ~slot * args.qkv_stride + kv_head * kDim;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const bool is_value = i >= 2;
      const int of_piece = piece + i % 2 * kPairs;
      const uint4* const from =
          slot >= 0
              ? stored(args, kv_head, slot, of_piece, is_value)
              : reinterpret_cast<const uint4*>(row + (is_value ? args.v_offset : args.k_offset)) +
                    of_piece;
      copy_16_async(at(shared, of_piece, is_value), from, true);
    }
  }
  __device__ __forceinline__ void rotate_own(const ClusterArgs& args, int kv_head,
                                             uint32_t shared) const {
    if (!valid || slot >= 0) return;
    const int piece = static_cast<int>(threadIdx.x) % kPairs;
    uint4 low, high;
    rotate_staged(at(shared, piece, false), at(shared, piece + kPairs, false), angles, kDim, low,
                  high);
    if (own_slot < 0) return;
    *stored(args, kv_head, own_slot, piece, false) = low;
    *stored(args, kv_head, own_slot, piece + kPairs, false) = high;
    *stored(args, kv_head, own_slot, piece, true) = load_shared_16(at(shared, piece, true));
    *stored(args, kv_head, own_slot, piece + kPairs, true) =
        load_shared_16(at(shared, piece + kPairs, true));
  }

 private:
  __device__ __forceinline__ static uint32_t at(uint32_t shared, int piece, bool is_value) {
    const int extra = static_cast<int>(threadIdx.x) / kPairs;
    return shared + (is_value ? Layout::kExtraValues : Layout::kExtraKeys) +
           extra * kPanelRowBytes + kv_piece(piece, extra, kClusterExtras);
  }
  // A piece of a slot of the cache.
  __device__ __forceinline__ static uint4* stored(const ClusterArgs& args, int kv_head, int at,
                                                  int piece, bool is_value) {
    return reinterpret_cast<uint4*>(args.kv + at / kTilePositions * args.block_stride +
                                    int64_t{is_value ? args.kv_heads + kv_head : kv_head} *
                                        tile_bytes(kDim) +
                                    at % kTilePositions * kPanelRowBytes + kv_piece(piece, at));
  }
};

#endif

}  // namespace forerun::cuda
