// The kernel of attention over shared prefixes (attention/cuda/shared.cu): its shared-memory
// layout, and the warp that copies keys and values into a ring and announces the work on them.
// Device code; only that kernel includes it.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "kernels/attention/cuda/args.h"
#include "kernels/attention/cuda/keys.h"
#include "kernels/cuda/ptx.h"

namespace forerun::cuda {

// Threads of a block: kThreads, then the loading warp. A block fits beside one of a linear layer
// that uses just over half of an SM.
constexpr int kSharedThreads = kThreads + 32;
constexpr int kSharedLimit = 115584;

// Byte offsets in shared memory; operands of wgmma begin at multiples of 1,024.
template <int kDim>
struct SharedLayout {
  static constexpr int kStageBytes =
      tile_bytes(kDim);  // a half tile of the ring: a tile's keys or values
  static constexpr int kWorkWords = 8;
  static constexpr int kWorkSlots = 2;
  static constexpr int kProbSlots = 2;
  static constexpr int kProbBytes = 64 * kPanelRowBytes;  // 64 columns x 64 positions
  static constexpr int kSmallBytes = kProbSlots * 64 * 4 + kWorkSlots * kWorkWords * 4;
  static constexpr int kSlotBarrierBytes = 16 * (kWorkSlots + kProbSlots);

  // [warpgroup] queries, in panels of 64 columns; in the narrow kernel one warpgroup's queries and
  // the probabilities that it passes to the other. Later the values that rows gather.
  static constexpr int kQueries = 0;
  static constexpr int kProbs = tile_bytes(kDim);
  static constexpr int kRing = 2 * tile_bytes(kDim);
  static constexpr int kStages =
      (kSharedLimit - kRing - kSmallBytes - kSlotBarrierBytes) / (kStageBytes + 16);
  // Two barriers each: a half tile is filled, is free; work is announced, has been read;
  // probabilities are written, have been read.
  static constexpr int kBarriers = kRing + kStages * kStageBytes;
  static constexpr int kWorkBarriers = kBarriers + kStages * 16;
  static constexpr int kProbBarriers = kWorkBarriers + kWorkSlots * 16;
  static constexpr int kRescales = kProbBarriers + kProbSlots * 16;  // f32 [slot][64 columns]
  static constexpr int kWork = kRescales + kProbSlots * 64 * 4;
  static constexpr int kLists = kRescales;  // replaces the rescales after the prefix items
  static_assert(kWarps * kMaxExtras <= kSmallBytes);
  static constexpr int kBytes = kRescales + kSmallBytes;
  static_assert(kBytes <= kSharedLimit);
};

#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900

// The ring of half tiles: a tile's keys, its values, the next tile's keys and so on, and all warps
// count them in the same way. A half tile is free after two arrivals of each warp of one warpgroup,
// or one of each warp of both.
template <int kDim>
struct SharedRing {
  using Layout = SharedLayout<kDim>;
  uint32_t shared;
  uint32_t half_tile = 0;

  __device__ __forceinline__ void init() const {
    for (int i = 0; i < Layout::kStages; ++i) {
      barrier_init(shared + Layout::kBarriers + i * 16, 1);
      barrier_init(shared + Layout::kBarriers + i * 16 + 8, kWarps);
    }
  }
  __device__ __forceinline__ uint32_t stage(uint32_t of) const { return of % Layout::kStages; }
  __device__ __forceinline__ uint32_t parity(uint32_t of) const { return of / Layout::kStages & 1; }
  __device__ __forceinline__ uint32_t barrier(uint32_t of) const {
    return shared + Layout::kBarriers + stage(of) * 16;
  }
  __device__ __forceinline__ uint32_t data(uint32_t of) const {
    return shared + Layout::kRing + stage(of) * Layout::kStageBytes;
  }
  // Waits for half tile `of` and returns its address. Only for threads that have waited for all
  // earlier half tiles in the same slot, or have synchronized with a thread that has.
  __device__ __forceinline__ uint32_t wait_in_order(uint32_t of) const {
    barrier_wait(barrier(of), parity(of));
    return data(of);
  }
  // Does the same for any thread. A warpgroup that has skipped an item may arrive before the slot's
  // previous half tile has even landed. Parity cannot distinguish phases that are two apart, so the
  // warpgroup first waits until that half tile is released. (The release barrier is at most one
  // phase behind: the warp that announced the item had requested all half tiles before it.)
  __device__ __forceinline__ uint32_t wait(uint32_t of) const {
    barrier_wait(barrier(of) + 8, parity(of) ^ 1);
    return wait_in_order(of);
  }
  __device__ __forceinline__ void release(uint32_t of, int arrivals) const {
    __syncwarp();
    if (static_cast<int>(threadIdx.x % 32) < arrivals) barrier_arrive(barrier(of) + 8);
  }
  // These functions are the interface from which attend_item() takes tiles.
  __device__ __forceinline__ SharedTile wait_next() const {
    return {wait(half_tile), wait(half_tile + 1)};
  }
  __device__ __forceinline__ void release() {
    release(half_tile, 1);
    release(half_tile + 1, 1);
    half_tile += 2;
  }
  // Requests the next half tile. One thread calls it, in order.
  __device__ __forceinline__ void request(const std::byte* source) {
    barrier_wait(barrier(half_tile) + 8, parity(half_tile) ^ 1);
    barrier_arrive_expect_tx(barrier(half_tile), Layout::kStageBytes);
    bulk_copy(data(half_tile), source, Layout::kStageBytes, barrier(half_tile));
    ++half_tile;
  }
};

// A prefix item for one part of a key/value head, as the loading warp announces it.
struct PrefixWork {
  int num_rows;  // 0 if there are no more items
  int first_row, head, query_tile;
  int first_tile, tiles;
};
template <int kDim>
__device__ __forceinline__ uint32_t work_at(uint32_t shared, int index) {
  using Layout = SharedLayout<kDim>;
  return shared + Layout::kWork + index % Layout::kWorkSlots * (Layout::kWorkWords * 4);
}
template <int kDim>
__device__ __forceinline__ uint32_t work_barrier(uint32_t shared, int index) {
  using Layout = SharedLayout<kDim>;
  return shared + Layout::kWorkBarriers + index % Layout::kWorkSlots * 16;
}
template <int kDim>
__device__ __forceinline__ uint32_t work_parity(int index) {
  return static_cast<uint32_t>(index / SharedLayout<kDim>::kWorkSlots) & 1;
}
// Waits for the block's next item and returns it. All kThreads threads of the block call it.
template <int kDim>
__device__ __forceinline__ PrefixWork take_work(uint32_t shared, int index) {
  barrier_wait(work_barrier<kDim>(shared, index), work_parity<kDim>(index));
  const uint32_t address = work_at<kDim>(shared, index);
  const auto word = [&](int at) { return static_cast<int>(load_shared_4(address + at * 4)); };
  const PrefixWork work = {word(0), word(1), word(2), word(3), word(4), word(5)};
  barrier_arrive(work_barrier<kDim>(shared, index) + 8);
  return work;
}

// Positions of a tile's keys and values in the ring of half tiles if values are loaded one tile
// later than keys: K0 K1 V0 K2 V1 ...
__device__ __forceinline__ uint32_t keys_half_tile(int tile) {
  return static_cast<uint32_t>(max(2 * tile - 1, 0));
}
__device__ __forceinline__ uint32_t values_half_tile(int tile, int tiles) {
  return static_cast<uint32_t>(min(2 * tile + 2, 2 * tiles - 1));
}

// Runs the loading warp. Each lane looks up the block of one tile of every 32.
template <int kDim, bool kFused, bool kWide>
__device__ __forceinline__ void produce_tiles(const AttentionArgs& args, uint32_t shared) {
  const int lane = threadIdx.x % 32;
  const int heads = args.kv_heads * args.parts;
  const auto* const tables = step_data<int32_t>(args.step, args.step->tables_offset);
  const int num_prefixes = args.step->num_prefix_items;
  SharedRing<kDim> ring = {shared};
  // Requests tiles [first, end) of a sequence. With `late`, a tile's values come after the next
  // tile's keys.
  const auto request = [&](int table, int kv_head, int first, int end, bool late) {
    const std::byte* values = nullptr;
#pragma unroll 1
    for (int begin = first; begin < end; begin += 32) {
      const int of_lane = min(begin + lane, end - 1);
      const std::byte* const own = keys_of<kDim>(args, tables[table + of_lane], kv_head);
#pragma unroll 1
      for (int i = 0; i < min(32, end - begin); ++i) {
        const auto keys = reinterpret_cast<const std::byte*>(
            __shfl_sync(~0u, reinterpret_cast<uint64_t>(own), i));
        if (lane == 0) {
          ring.request(keys);
          if (values != nullptr) ring.request(values);
          values = keys + value_offset<kDim>(args);
          if (!late) {
            ring.request(values);
            values = nullptr;
          }
        }
      }
    }
    if (lane == 0 && values != nullptr) ring.request(values);
  };
  int index = 0;
  const auto tell = [&](int word, int value) {
    store_shared_4(work_at<kDim>(shared, index) + word * 4, static_cast<uint32_t>(value));
  };
  for (int work = blockIdx.x; work < num_prefixes * heads; work += gridDim.x, ++index) {
    const AttentionItemCuda item = step_data<AttentionItemCuda>(
        args.step, args.step->prefix_items_offset)[num_prefixes - 1 - work / heads];
    const int head = work % heads;
    const int first = first_tile_of(args, item);
    barrier_wait(work_barrier<kDim>(shared, index) + 8, work_parity<kDim>(index) ^ 1);
    if (lane == 0) {
      tell(0, item.num_rows);
      tell(1, item.first_row);
      tell(2, head);
      tell(3, item.query_tile);
      tell(4, first);
      tell(5, max(item.end_tile - first, 0));
    }
    barrier_arrive(work_barrier<kDim>(shared, index));
    request(item.table, head / args.parts, first, item.end_tile, !kWide);
  }
  barrier_wait(work_barrier<kDim>(shared, index) + 8, work_parity<kDim>(index) ^ 1);
  if (lane == 0) tell(0, 0);
  barrier_arrive(work_barrier<kDim>(shared, index));
  // Items of single rows are assigned to blocks in reverse order, so that they go to those with the
  // fewest prefix items.
  const int num_items = args.step->num_items;
  for (int work = gridDim.x - 1 - blockIdx.x; work < num_items * heads; work += gridDim.x) {
    const AttentionItemCuda item =
        step_data<AttentionItemCuda>(args.step, args.step->items_offset)[work / heads];
    const int first = first_tile_of(args, item);
    int end = first;  // shared tiles come first
    while (end < item.end_tile && shares_tile<kFused>(item, end)) ++end;
    request(item.table, work % heads / args.parts, first, end, /*late=*/false);
  }
}

#endif

}  // namespace forerun::cuda
