// The staging of the linear layer's output by a block of a decode cluster
// (attention/cuda/decode_cluster.cu): rotated queries and, if the block has the item's tail, the
// step's own keys and values. Each thread finds the addresses of its part before the previous
// kernel has ended. Device code; only that kernel includes it.
#pragma once

#include <cuda_bf16.h>

#include <cstdint>

#include "kernels/attention/cuda/decode_cluster_args.h"
#include "kernels/attention/cuda/kv_layout.h"
#include "kernels/attention/cuda/load.h"
#include "kernels/cuda/ptx.h"

namespace forerun::cuda {

#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900

// The rows of an item for which a warp writes lists of keys in store_tile_rows(), and the row for
// which a thread writes the last visible position.
template <class Layout>
struct TileInfoRows {
  static constexpr int kOfWarp = (Layout::kRows + kDecodeClusterWarps - 1) / kDecodeClusterWarps;
  AttentionRowCuda of_warp[kOfWarp], of_thread;

  __device__ __forceinline__ TileInfoRows(const DecodeClusterArgs& args,
                                          const AttentionItemCuda& item) {
    const auto* const rows =
        step_data<AttentionRowCuda>(args.step, args.step->rows_offset) + item.first_row;
    const int last = item.num_rows - 1;
#pragma unroll
    for (int i = 0; i < kOfWarp; ++i) of_warp[i] = rows[min(number_of_warp(i), last)];
    of_thread = rows[min(static_cast<int>(threadIdx.x), last)];
  }
  static __device__ __forceinline__ int number_of_warp(int i) {
    return static_cast<int>(threadIdx.x) / 32 + i * kDecodeClusterWarps;
  }
};
// Writes to shared memory the last visible position of each of an item's rows and, for the tail,
// the key of each row's positions in the tile: a key of the tile, or kTilePositions plus the number
// of an extra. Invisible positions get the key of the row's last visible one.
template <class Layout>
__device__ __forceinline__ void store_tile_rows(const DecodeClusterArgs& args,
                                                const DecodeClusterWork& work,
                                                const TileInfoRows<Layout>& rows, uint32_t shared) {
  const int begin = work.task.tail_tile * kTilePositions;
  const int lane = threadIdx.x % 32;
#pragma unroll
  for (int warp_row = 0; warp_row < TileInfoRows<Layout>::kOfWarp; ++warp_row) {
    const int row = TileInfoRows<Layout>::number_of_warp(warp_row);
    if (!work.task.has_tail || row >= work.item.num_rows) break;
    const AttentionRowCuda& from = rows.of_warp[warp_row];
    const auto* const ancestors =
        step_data<int32_t>(args.step, args.step->ancestors_offset) + from.ancestors;
#pragma unroll
    for (int i = lane; i < kTilePositions; i += 32) {
      const int at = min(begin + i, from.last_visible);
      const int key =
          at < from.boundary ? at - begin : kTilePositions + ancestors[at - from.boundary];
      store_shared_byte(shared + Layout::kLists + row * kTilePositions + i,
                        static_cast<uint32_t>(key));
    }
  }
  if (static_cast<int>(threadIdx.x) < work.item.num_rows) {
    store_shared_4(shared + Layout::kPositions + threadIdx.x * 4,
                   static_cast<uint32_t>(rows.of_thread.last_visible));
  }
}

// Writes the facts to shared memory that the block needs once the previous kernel has ended.
template <class Layout>
__device__ __forceinline__ void store_tile_info(const DecodeClusterWork& work, uint32_t shared) {
  if (threadIdx.x != 96) return;
  const DecodeClusterTailShare tail = decode_cluster_tail_share<Layout>(work);
  const AttentionItemCuda& item = work.item;
  const DecodeClusterTask& task = work.task;
  const int fields[kNumTileFields] = {item.first_row,      item.num_rows,
                                      work.first_head,     work.part_heads,
                                      work.kv_head,        task.first_span,
                                      task.tail_span,      task.tail_tile * kTilePositions,
                                      task.tail_warpgroup, task.tail_has_prefix ? 1 : 0,
                                      tail.warps,          tail.shift};
#pragma unroll
  for (int i = 0; i < kNumTileFields; ++i) {
    store_shared_4(shared + Layout::kTileFields + i * 4, static_cast<uint32_t>(fields[i]));
  }
}

// The data of store_tile_info() and store_tile_rows(), read back.
template <class Layout>
struct DecodeClusterTileInfo {
  uint32_t shared;

  __device__ __forceinline__ int field(DecodeClusterTileField index) const {
    return static_cast<int>(load_shared_4(shared + Layout::kTileFields + index * 4));
  }
  __device__ __forceinline__ int last_visible(int row) const {
    return static_cast<int>(load_shared_4(shared + Layout::kPositions + row * 4));
  }
};

// Returns the address of the angles of a piece of an extra in shared memory, which holds them until
// the previous kernel has ended. The first extras are the item's rows.
template <class Layout>
__device__ __forceinline__ uint32_t angles_at(uint32_t shared, int slot, int piece) {
  return shared + Layout::kAngles + slot * (Layout::kDim * 4) + piece * 32;
}
// Requests the angles of row `row` of the step, a piece's cosines and sines, in the layout that
// PieceAngles::take_up() reads.
template <class Layout>
__device__ __forceinline__ void request_angles(const DecodeClusterArgs& args, int row, int piece,
                                               uint32_t to) {
  const float* const from =
      step_data<float>(args.step, args.step->angles_offset) + row * Layout::kDim + piece * 8;
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    copy_16_async(to + i / 2 * (Layout::kDim * 2) + i % 2 * 16,
                  from + i / 2 * (Layout::kDim / 2) + i % 2 * 4, true);
  }
}

// Rotates two pieces of a key or query in shared memory, half a head apart, which the thread has
// copied.
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

// A column for which a thread stages two pieces: its first or, for wide items, its second
// (`share`).
template <class Layout>
struct DecodeClusterColumn {
  static constexpr int kPairs = Layout::kDim / 16;  // threads per column
  static constexpr int kAtOnce = kDecodeClusterThreads / kPairs;
  static constexpr int kShares = (Layout::kColumns + kAtOnce - 1) / kAtOnce;
  static_assert(kNarrowDecodeClusterColumns <= kAtOnce && kShares <= 2);
  int column, row, head;  // row of the item, head of the part

  __device__ __forceinline__ DecodeClusterColumn(const DecodeClusterArgs& args, int share)
      : column(static_cast<int>(threadIdx.x) / kPairs + share * kAtOnce),
        row(args.by_row_columns.divide(column)),
        head(column - row * args.row_columns) {}
  __device__ __forceinline__ static int pair() { return static_cast<int>(threadIdx.x) % kPairs; }
};

// A thread's two pieces of a query. It copies them without registers in between, since few are
// free.
template <class Layout>
struct StagedQuery {
  static constexpr int kPairs = DecodeClusterColumn<Layout>::kPairs;
  const uint4* from = nullptr;  // null if there is no such column
  uint32_t angles = 0;

  // Finds the addresses; the first column of each row requests the row's angles.
  __device__ __forceinline__ void plan(const DecodeClusterArgs& args, const DecodeClusterWork& work,
                                       const DecodeClusterColumn<Layout>& column, uint32_t shared) {
    if (column.row >= work.item.num_rows || column.head >= work.part_heads) return;
    const int row = work.item.first_row + column.row;
    const int piece = DecodeClusterColumn<Layout>::pair();
    from = opaque(reinterpret_cast<const uint4*>(args.qkv + row * args.qkv_stride +
                                                 (work.first_head + column.head) * Layout::kDim) +
                  piece);
    angles = angles_at<Layout>(shared, column.row, piece);
    if (column.head == 0) request_angles<Layout>(args, row, piece, angles);
  }
  __device__ __forceinline__ uint32_t at(uint32_t shared, int share, int piece) const {
    using Column = DecodeClusterColumn<Layout>;
    const int column = static_cast<int>(threadIdx.x) / kPairs + share * Column::kAtOnce;
    return shared + Layout::kQueries + column * kPanelRowBytes +
           kv_piece(Column::pair() + piece, column, Layout::kColumns);
  }
  __device__ __forceinline__ void copy(uint32_t shared, int share) const {
    if (from == nullptr) return;
    copy_16_async(at(shared, share, 0), from, true);
    copy_16_async(at(shared, share, kPairs), from + kPairs, true);
  }
  __device__ __forceinline__ void rotate_own(uint32_t shared, int share) const {
    if (from == nullptr) return;
    uint4 low, high;
    rotate_staged(at(shared, share, 0), at(shared, share, kPairs), angles, Layout::kDim, low, high);
  }
};

// A thread's two pieces of an extra key, and of its value. The last threads take the first extras,
// since the first threads have queries and rows of the tail.
template <class Layout>
struct StagedExtra {
  static constexpr int kPairs = Layout::kDim / 16;
  __device__ __forceinline__ static int extra_of_thread() {
    return (kDecodeClusterThreads - 1 - static_cast<int>(threadIdx.x)) / kPairs;
  }
  const std::byte* from = nullptr;  // first piece of the key; null if there is no extra
  int to_second = 0, to_value = 0;  // bytes from `from` to the second piece, and from key to value
  int own_slot = -1;                // where to append the row's key and value, or -1
  bool rotates = false;             // the extra is a row of this step
  uint32_t angles = 0;

  // Finds the addresses. With `appends` the rows of the item are also appended to the cache. They
  // are the first extras; their queries request the angles.
  __device__ __forceinline__ void plan(const DecodeClusterArgs& args, const AttentionItemCuda& item,
                                       int kv_head, bool appends, uint32_t shared) {
    const int extra = extra_of_thread();
    const int piece = static_cast<int>(threadIdx.x) % kPairs;
    if (extra >= item.num_extras) return;
    const int slot = step_data<int32_t>(args.step, args.step->extras_offset)[item.extras + extra];
    const int row = ~slot;
    rotates = slot < 0;
    if (rotates) {
      from = reinterpret_cast<const std::byte*>(args.qkv + row * args.qkv_stride + args.k_offset +
                                                kv_head * Layout::kDim + piece * 8);
      to_second = kPairs * 16;
      to_value = (args.v_offset - args.k_offset) * 2;
    } else {
      from = stored(args, kv_head, slot) + kv_piece(piece, slot);
      to_second = kv_piece(piece + kPairs, slot) - kv_piece(piece, slot);
      to_value = args.kv_heads * tile_bytes(Layout::kDim);
    }
    from = opaque(from);
    if (!rotates) return;
    angles = angles_at<Layout>(shared, extra, piece);
    if (extra >= item.num_rows) {
      request_angles<Layout>(args, row, piece, angles);
    } else if (appends) {
      own_slot = step_data<int32_t>(args.step, args.step->kv_slots_offset)[row];
    }
  }
  __device__ __forceinline__ void copy(uint32_t shared) const {
    if (from == nullptr) return;
    const int piece = static_cast<int>(threadIdx.x) % kPairs;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      copy_16_async(at(shared, piece + i % 2 * kPairs, i >= 2),
                    from + i % 2 * to_second + i / 2 * to_value, true);
    }
  }
  __device__ __forceinline__ void rotate_own(uint32_t shared) const {
    if (!rotates) return;
    const int piece = static_cast<int>(threadIdx.x) % kPairs;
    uint4 low, high;
    rotate_staged(at(shared, piece, false), at(shared, piece + kPairs, false), angles, Layout::kDim,
                  low, high);
  }
  // Appends the row's key and value to the cache. Call it after load_and_rotate(), whose fence
  // before wgmma's reads would wait for these stores too.
  __device__ __forceinline__ void append(const DecodeClusterArgs& args, int kv_head,
                                         uint32_t shared) const {
    if (own_slot < 0) return;
    const int first = static_cast<int>(threadIdx.x) % kPairs;
    std::byte* const to = stored(args, kv_head, own_slot);
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int piece = first + i % 2 * kPairs;
      *reinterpret_cast<uint4*>(to + i / 2 * args.kv_heads * tile_bytes(Layout::kDim) +
                                kv_piece(piece, own_slot)) =
          load_shared_16(at(shared, piece, i >= 2));
    }
  }

 private:
  __device__ __forceinline__ static uint32_t at(uint32_t shared, int piece, bool is_value) {
    const int extra = extra_of_thread();
    return shared + (is_value ? Layout::kExtraValues : Layout::kExtraKeys) +
           extra * kPanelRowBytes + kv_piece(piece, extra, kDecodeClusterExtras);
  }
  // Returns the address of a slot's key in the cache.
  __device__ __forceinline__ static std::byte* stored(const DecodeClusterArgs& args, int kv_head,
                                                      int slot) {
    return args.kv + slot / kTilePositions * args.block_stride +
           int64_t{kv_head} * tile_bytes(Layout::kDim) + slot % kTilePositions * kPanelRowBytes;
  }
};

// The parts of an item that a thread stages. It also merges its columns.
template <class Layout>
struct DecodeClusterStaging {
  static constexpr int kShares = DecodeClusterColumn<Layout>::kShares;
  StagedQuery<Layout> queries[kShares];
  StagedExtra<Layout> extra;
  uint32_t shares = 0;  // bit i: the thread has a column in share i

  // Finds the addresses, while queries may still be incomplete, and requests the angles.
  __device__ __forceinline__ void plan(const DecodeClusterArgs& args, const DecodeClusterWork& work,
                                       uint32_t shared) {
#pragma unroll
    for (int i = 0; i < kShares; ++i) {
      queries[i].plan(args, work, DecodeClusterColumn<Layout>(args, i), shared);
      shares |= (queries[i].from != nullptr ? 1u : 0u) << i;
    }
    if (work.task.has_tail) {
      extra.plan(args, work.item, work.kv_head, work.task.tail_is_last, shared);
    }
  }
  // Loads and rotates the block's queries and extras, which can be operands afterwards.
  __device__ __forceinline__ void load_and_rotate(uint32_t shared) const {
#pragma unroll
    for (int i = 0; i < kShares; ++i) queries[i].copy(shared, i);
    extra.copy(shared);
    copies_commit();
    copies_wait();
#pragma unroll
    for (int i = 0; i < kShares; ++i) queries[i].rotate_own(shared, i);
    extra.rotate_own(shared);
    fence_async_proxy();
    __syncthreads();
  }
};

#endif

}  // namespace forerun::cuda
