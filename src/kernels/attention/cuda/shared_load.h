// How the kernel of attention over shared prefixes (attention/cuda/shared.cu) divides its shared
// memory, and the warp that feeds it: keys and values through a ring, and what is to be done with
// them. Device code; included by the kernel alone.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "kernels/attention/cuda/args.h"
#include "kernels/attention/cuda/keys.h"
#include "kernels/cuda/ptx.h"

namespace forerun::cuda {

// Of a block, whose kThreads are followed by the feeding warp: beside one of a linear layer that
// asks for just over half of an SM.
constexpr int kSharedThreads = kThreads + 32;
constexpr int kSharedLimit = 115584;

// In bytes from the beginning; operands of wgmma begin at multiples of 1,024.
template <int kDim>
struct SharedLayout {
  static constexpr int kUnitBytes = tile_bytes(kDim);  // of the ring: a tile's keys, or values
  static constexpr int kWorkWords = 8;
  static constexpr int kWorkSlots = 2;
  static constexpr int kProbSlots = 2;
  static constexpr int kProbBytes = 64 * kPanelRowBytes;  // of 64 columns and positions
  static constexpr int kSmallBytes = kProbSlots * 64 * 4 + kWorkSlots * kWorkWords * 4;
  static constexpr int kSlotBarrierBytes = 16 * (kWorkSlots + kProbSlots);

  // [warpgroup] queries, panels of 64 columns, or one warpgroup's and probabilities for the other;
  // later what rows gather for themselves.
  static constexpr int kQueries = 0;
  static constexpr int kProbs = tile_bytes(kDim);
  static constexpr int kRing = 2 * tile_bytes(kDim);
  static constexpr int kUnits =
      (kSharedLimit - kRing - kSmallBytes - kSlotBarrierBytes) / (kUnitBytes + 16);
  // Of a unit: it is there, it is free; of work: it is there, it has been read; of probabilities
  // likewise.
  static constexpr int kBarriers = kRing + kUnits * kUnitBytes;
  static constexpr int kWorkBarriers = kBarriers + kUnits * 16;
  static constexpr int kProbBarriers = kWorkBarriers + kWorkSlots * 16;
  static constexpr int kShrinks = kProbBarriers + kProbSlots * 16;  // f32 [slot][64 columns]
  static constexpr int kWork = kShrinks + kProbSlots * 64 * 4;
  static constexpr int kLists = kShrinks;  // later
  static_assert(kWarps * kMaxExtras <= kSmallBytes);
  static constexpr int kBytes = kShrinks + kSmallBytes;
  static_assert(kBytes <= kSharedLimit);
};

#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900

// The ring, as everybody counts its units: a tile's keys, its values, the next tile's keys. A unit
// is free after two arrivals of each warp of a warpgroup, or one of each of both.
template <int kDim>
struct SharedRing {
  using Layout = SharedLayout<kDim>;
  uint32_t shared;
  uint32_t unit = 0;

  __device__ __forceinline__ void init() const {
    for (int i = 0; i < Layout::kUnits; ++i) {
      barrier_init(shared + Layout::kBarriers + i * 16, 1);
      barrier_init(shared + Layout::kBarriers + i * 16 + 8, kWarps);
    }
  }
  __device__ __forceinline__ uint32_t slot(uint32_t of) const { return of % Layout::kUnits; }
  __device__ __forceinline__ uint32_t parity(uint32_t of) const { return of / Layout::kUnits & 1; }
  __device__ __forceinline__ uint32_t barrier(uint32_t of) const {
    return shared + Layout::kBarriers + slot(of) * 16;
  }
  __device__ __forceinline__ uint32_t data(uint32_t of) const {
    return shared + Layout::kRing + slot(of) * Layout::kUnitBytes;
  }
  // Where unit `of` lies, once it is there, for who has seen all units before it come that use its
  // place (or has been told of something that waited for them).
  __device__ __forceinline__ uint32_t wait_in_order(uint32_t of) const {
    barrier_wait(barrier(of), parity(of));
    return data(of);
  }
  // The same for anybody. A warpgroup that has skipped an item may come before
  // the place's last unit has even landed, and a parity says nothing about the phase before the
  // last: so that unit must have been given back. (That barrier is one phase behind at most:
  // whoever told of the item had requested all units before it.)
  __device__ __forceinline__ uint32_t wait(uint32_t of) const {
    barrier_wait(barrier(of) + 8, parity(of) ^ 1);
    return wait_in_order(of);
  }
  __device__ __forceinline__ void release(uint32_t of, int arrivals) const {
    __syncwarp();
    if (static_cast<int>(threadIdx.x % 32) < arrivals) barrier_arrive(barrier(of) + 8);
  }
  // As attend_item() takes tiles.
  __device__ __forceinline__ SharedTile wait_next() const { return {wait(unit), wait(unit + 1)}; }
  __device__ __forceinline__ void release() {
    release(unit, 1);
    release(unit + 1, 1);
    unit += 2;
  }
  // One thread, in order.
  __device__ __forceinline__ void request(const std::byte* source) {
    barrier_wait(barrier(unit) + 8, parity(unit) ^ 1);
    barrier_arrive_expect_tx(barrier(unit), Layout::kUnitBytes);
    bulk_copy(data(unit), source, Layout::kUnitBytes, barrier(unit));
    ++unit;
  }
};

// A prefix item of one part of a key/value head, as the block's warps read it.
struct PrefixWork {
  int num_rows;  // 0: there is no more
  int first_row, head, group;
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
// The block's next item, once it is known. All kThreads of the block.
template <int kDim>
__device__ __forceinline__ PrefixWork take_work(uint32_t shared, int index) {
  barrier_wait(work_barrier<kDim>(shared, index), work_parity<kDim>(index));
  const uint32_t address = work_at<kDim>(shared, index);
  const auto word = [&](int at) { return static_cast<int>(load_shared_4(address + at * 4)); };
  const PrefixWork work = {word(0), word(1), word(2), word(3), word(4), word(5)};
  barrier_arrive(work_barrier<kDim>(shared, index) + 8);
  return work;
}

// Where one warpgroup takes keys and another values, a tile behind, the units of an item's tiles
// come in that order: a tile's keys before the values of the tile before it.
__device__ __forceinline__ uint32_t keys_unit(int tile) {
  return static_cast<uint32_t>(max(2 * tile - 1, 0));
}
__device__ __forceinline__ uint32_t values_unit(int tile, int tiles) {
  return static_cast<uint32_t>(min(2 * tile + 2, 2 * tiles - 1));
}

// The feeding warp. A lane knows the block of a tile.
template <int kDim, bool kFused, bool kWide>
__device__ __forceinline__ void feed(const AttentionArgs& args, uint32_t shared) {
  const int lane = threadIdx.x % 32;
  const int heads = args.kv_heads * args.parts;
  const auto* const tables = step_data<int32_t>(args.step, args.step->tables_offset);
  const int num_prefixes = args.step->num_prefix_items;
  SharedRing<kDim> ring = {shared};
  // Tiles [first, end) of one sequence's; `late`: values after the next tile's keys.
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
      tell(3, item.group);
      tell(4, first);
      tell(5, max(item.end_tile - first, 0));
    }
    barrier_arrive(work_barrier<kDim>(shared, index));
    request(item.table, head / args.parts, first, item.end_tile, !kWide);
  }
  barrier_wait(work_barrier<kDim>(shared, index) + 8, work_parity<kDim>(index) ^ 1);
  if (lane == 0) tell(0, 0);
  barrier_arrive(work_barrier<kDim>(shared, index));
  // Items of single rows: the other way round, to the blocks with the fewest prefixes.
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
