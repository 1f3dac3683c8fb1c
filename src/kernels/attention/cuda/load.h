// Loads that precede the work on an item: rows, queries and, if the kernel also rotates, the step's
// own keys and values. Device code; only the attention kernels include it.
#pragma once

#include <cuda_bf16.h>

#include <cstddef>
#include <cstdint>

#include "kernels/attention/cuda/args.h"
#include "kernels/attention/cuda/kv_layout.h"
#include "kernels/attention/cuda/row.h"
#include "kernels/cuda/ptx.h"

namespace forerun::cuda {

#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900

template <int kDim>
__device__ __forceinline__ void load_row(const AttentionArgs& args, int row_idx,
                                         RowTask<kDim>& task) {
  task.row = step_data<AttentionRowCuda>(args.step, args.step->rows_offset)[row_idx];
  task.table = step_data<int32_t>(args.step, args.step->tables_offset) + task.row.table;
  task.ancestors = step_data<int32_t>(args.step, args.step->ancestors_offset) + task.row.ancestors;
}

__device__ __forceinline__ float2 unpack_bf16x2(uint32_t pair) {
  return __bfloat1622float2(*reinterpret_cast<const __nv_bfloat162*>(&pair));
}

// Rotates a pair of vectors of two dimensions each, half a head apart. It has the operations of
// attention/cuda/kv_rows.cu and is compiled without contraction, so it gives the same bits.
__device__ __forceinline__ void rotate(uint32_t& low, uint32_t& high, float2 cosines,
                                       float2 sines) {
  const float2 x = unpack_bf16x2(low);
  const float2 y = unpack_bf16x2(high);
  low = pack_bf16x2(x.x * cosines.x - y.x * sines.x, x.y * cosines.y - y.y * sines.y);
  high = pack_bf16x2(y.x * cosines.x + x.x * sines.x, y.y * cosines.y + x.y * sines.y);
}

// Cosines and sines of a piece and the one half a head later; `piece` counts within the first half.
struct PieceAngles {
  float4 cosines[2], sines[2];

  __device__ __forceinline__ void load(const AttentionStepCuda* step, int row, int piece, int dim) {
    const float* const angles = step_data<float>(step, step->angles_offset) + row * dim + piece * 8;
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      cosines[i] = reinterpret_cast<const float4*>(angles)[i];
      sines[i] = reinterpret_cast<const float4*>(angles + dim / 2)[i];
    }
  }
  // Loads the angles from shared memory, where the sines lie dim / 2 floats after the cosines.
  __device__ __forceinline__ void take_up(uint32_t from, int dim) {
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const uint4 c = load_shared_16(from + i * 16);
      const uint4 s = load_shared_16(from + dim * 2 + i * 16);
      cosines[i] = {__uint_as_float(c.x), __uint_as_float(c.y), __uint_as_float(c.z),
                    __uint_as_float(c.w)};
      sines[i] = {__uint_as_float(s.x), __uint_as_float(s.y), __uint_as_float(s.z),
                  __uint_as_float(s.w)};
    }
  }
  __device__ __forceinline__ void rotate_pieces(uint4& low, uint4& high) const {
    const float4 *c = cosines, *s = sines;
    rotate(low.x, high.x, {c[0].x, c[0].y}, {s[0].x, s[0].y});
    rotate(low.y, high.y, {c[0].z, c[0].w}, {s[0].z, s[0].w});
    rotate(low.z, high.z, {c[1].x, c[1].y}, {s[1].x, s[1].y});
    rotate(low.w, high.w, {c[1].z, c[1].w}, {s[1].z, s[1].w});
  }
};

// A copier of the queries of up to 64 columns (one query head of one row each) into shared memory,
// in panels like a tile's, asynchronously and without registers in between; with kRotate it rotates
// them there. A warpgroup, or the first `kThreads` threads of the block, calls it.
template <int kDim, bool kRotate, int kThreads = 128>
struct ColumnQueries {
  static constexpr int kPairs = kDim / 16;            // pairs of pieces half a head apart
  static constexpr int kColumns = kThreads / kPairs;  // copied at once
  static constexpr int kRounds = 64 / kColumns;
  const uint4* from[kRounds];  // null if there is no such column
  PieceAngles angles[kRotate ? kRounds : 1];

  __device__ __forceinline__ static int piece() { return static_cast<int>(threadIdx.x) % kPairs; }
  __device__ __forceinline__ static int column_of(int round) {
    return static_cast<int>(threadIdx.x) % kThreads / kPairs + round * kColumns;
  }
  __device__ __forceinline__ static uint32_t at(uint32_t queries, int round, int half) {
    const int column = column_of(round);
    return queries + column * kPanelRowBytes + kv_piece(piece() + half * kPairs, column);
  }
  // Finds the addresses; the queries need not be complete yet. Rows start at row `first_row` of the
  // step; `first(row)` returns the part's first head in that row.
  template <class First>
  __device__ __forceinline__ void plan(const AttentionArgs& args, int first_row, int num_rows,
                                       int num_heads, const First& first) {
#pragma unroll
    for (int i = 0; i < kRounds; ++i) {
      const int column = column_of(i);
      const int row = args.by_row_columns.divide(column);
      const int head = column - row * args.row_columns;
      const bool is_there = row < num_rows && head < num_heads;
      from[i] = is_there
                    ? reinterpret_cast<const uint4*>(first(first_row + row) + head * kDim) + piece()
                    : nullptr;
      // Loads the angles on every path: if only some paths wrote them, their registers would stay
      // occupied to the end.
      if constexpr (kRotate) {
        angles[i].load(args.step, first_row + min(row, num_rows - 1), piece(), kDim);
      }
    }
  }
  __device__ __forceinline__ void stage(uint32_t queries) const {
#pragma unroll
    for (int i = 0; i < kRounds; ++i) {
      if (from[i] == nullptr) continue;
      copy_16_async(at(queries, i, 0), from[i], true);
      copy_16_async(at(queries, i, 1), from[i] + kPairs, true);
    }
    copies_commit();
    copies_wait();
    if constexpr (kRotate) {
#pragma unroll
      for (int i = 0; i < kRounds; ++i) {
        if (from[i] == nullptr) continue;
        uint4 low = load_shared_16(at(queries, i, 0));
        uint4 high = load_shared_16(at(queries, i, 1));
        angles[i].rotate_pieces(low, high);
        store_shared_16(at(queries, i, 0), low);
        store_shared_16(at(queries, i, 1), high);
      }
    }
    fence_async_proxy();
  }
};

// Loads the queries of a row's heads; with kSplitKvFusedRope it takes them from the linear layer's
// output and rotates them.
template <int kDim, bool kFused>
__device__ __forceinline__ void load_queries(const AttentionArgs& args, int row_idx, int head,
                                             int lane, RowTask<kDim>& task) {
  const int part = head % args.parts;
  const int own_head = part * 8 + (lane >> 2);
  const bool valid = own_head < args.group_heads;
  const int q_head = head / args.parts * args.group_heads + own_head;
  const int first_dim = (lane & 3) * 2;
  const __nv_bfloat16* const q =
      (kFused ? args.qkv + row_idx * args.qkv_stride + q_head * kDim
              : args.q + (int64_t{row_idx} * args.num_heads + q_head) * kDim) +
      first_dim;
#pragma unroll
  for (int s = 0; s < kDim / 16; ++s) {
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      task.q[s][i] = valid ? *reinterpret_cast<const uint32_t*>(q + s * 16 + i * 8) : 0u;
    }
  }
  if constexpr (kFused) {
    const float* const cosines =
        step_data<float>(args.step, args.step->angles_offset) + row_idx * kDim + first_dim;
#pragma unroll
    for (int s = 0; s < kDim / 32; ++s) {
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        const float* const at = cosines + s * 16 + i * 8;
        rotate(task.q[s][i], task.q[s + kDim / 32][i], *reinterpret_cast<const float2*>(at),
               *reinterpret_cast<const float2*>(at + kDim / 2));
      }
    }
  }
}

// Copies an item's extra keys and values into shared memory and, if the item appends, those of its
// own rows into the cache. A warp takes one extra at a time.
template <int kDim>
__device__ __forceinline__ void stage_extras(const AttentionArgs& args,
                                             const AttentionItemCuda& item, int kv_head,
                                             uint32_t extras, int warp, int lane) {
  const auto* const list = step_data<int32_t>(args.step, args.step->extras_offset) + item.extras;
  const auto* const kv_slots = step_data<int32_t>(args.step, args.step->kv_slots_offset);
  const int64_t value_offset = int64_t{args.kv_heads} * tile_bytes(kDim);
  const auto stored = [&](int slot) {
    return args.kv + slot / kTilePositions * args.block_stride +
           int64_t{kv_head} * tile_bytes(kDim) + slot % kTilePositions * kPanelRowBytes;
  };
  constexpr int kPieces = kDim / 8;
  for (int extra = warp; extra < item.num_extras; extra += kWarps) {
    const uint32_t key_row = extras + extra * kPanelRowBytes;
    const uint32_t value_row = key_row + kMaxExtras * kDim * 2;
    const int slot = list[extra];
    if (slot >= 0) {
      for (int i = lane; i < 2 * kPieces; i += 32) {
        const int piece = i % kPieces;
        const bool is_value = i >= kPieces;
        const auto v = *reinterpret_cast<const uint4*>(
            stored(slot) + (is_value ? value_offset : 0) + kv_piece(piece, slot));
        store_shared_16((is_value ? value_row : key_row) + kv_piece(piece, extra), v);
      }
      continue;
    }
    const int row = ~slot;
    const bool appends =
        item.appends != 0 && row >= item.first_row && row < item.first_row + item.num_rows;
    const int own_slot = appends ? kv_slots[row] : 0;
    const __nv_bfloat16* const k =
        args.qkv + row * args.qkv_stride + args.k_offset + kv_head * kDim;
    const __nv_bfloat16* const v =
        args.qkv + row * args.qkv_stride + args.v_offset + kv_head * kDim;
    const float* const cosines = step_data<float>(args.step, args.step->angles_offset) + row * kDim;
    const int i = 2 * lane;
    if (i < kDim / 2) {
      uint32_t low = *reinterpret_cast<const uint32_t*>(k + i);
      uint32_t high = *reinterpret_cast<const uint32_t*>(k + kDim / 2 + i);
      rotate(low, high, *reinterpret_cast<const float2*>(cosines + i),
             *reinterpret_cast<const float2*>(cosines + kDim / 2 + i));
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const int piece = (half * (kDim / 2) + i) / 8;
        const int in_piece = i % 8 * 2;
        const uint32_t pair = half == 0 ? low : high;
        store_shared_4(key_row + kv_piece(piece, extra) + in_piece, pair);
        if (appends) {
          *reinterpret_cast<uint32_t*>(stored(own_slot) + kv_piece(piece, own_slot) + in_piece) =
              pair;
        }
      }
    }
    if (lane < kPieces) {
      const auto piece_bits = *reinterpret_cast<const uint4*>(v + lane * 8);
      store_shared_16(value_row + kv_piece(lane, extra), piece_bits);
      if (appends) {
        *reinterpret_cast<uint4*>(stored(own_slot) + value_offset + kv_piece(lane, own_slot)) =
            piece_bits;
      }
    }
  }
}

#endif

}  // namespace forerun::cuda
