// The shared-memory layout of kPrefill (attention/cuda/prefill.cu), and the loads that it shares
// with prefill clusters and kPersistent. Only these kernels include this file.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/attention/cuda/args.h"
#include "kernels/attention/cuda/keys.h"
#include "kernels/attention/cuda/kv_layout.h"
#include "kernels/attention/cuda/load.h"
#include "kernels/cuda/ptx.h"

namespace forerun::cuda {

constexpr int kPrefillThreads = 3 * 128;
constexpr int kPrefillStages = 6;                      // shared by the warpgroups
constexpr int kPrefillBarriers = kPrefillStages * 16;  // two per stage: filled, free

template <int kDim>
struct PrefillLayout {
  static constexpr int kStageBytes = 2 * tile_bytes(kDim);       // keys, then values
  static constexpr int kQueries = kPrefillStages * kStageBytes;  // [warpgroup] panels of 64 columns
  static constexpr int kBarriers = kQueries + 2 * tile_bytes(kDim);
  static constexpr int kBytes = kBarriers + kPrefillBarriers;
};

#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900

// An item's work for one part of a key/value head.
struct PrefillWork {
  AttentionItemCuda item;
  int kv_head, part;

  // `head` counts the parts of all key/value heads.
  __device__ __forceinline__ PrefillWork(const AttentionArgs& args, int item_idx, int head)
      : item(step_data<AttentionItemCuda>(args.step, args.step->prompt_items_offset)[item_idx]),
        kv_head(args.by_parts.divide(head)),
        part(head - kv_head * args.parts) {}
};

// Returns kPrefill's work number `work_idx` among all pairs of an item and a part, long items
// first. A block's producer and its consumers all take them in this order.
__device__ __forceinline__ PrefillWork prefill_work(const AttentionArgs& args, int work_idx,
                                                    int num_items) {
  const int item_idx = args.by_heads.divide(work_idx);
  return {args, num_items - 1 - item_idx, work_idx - item_idx * args.by_heads.by};
}

// Copies the tiles of the block's work into its ring, in order. One thread calls it.
template <int kDim>
__device__ __forceinline__ void copy_tiles(const AttentionArgs& args, uint32_t shared,
                                           int num_items) {
  using Layout = PrefillLayout<kDim>;
  const auto* const tables = step_data<int32_t>(args.step, args.step->tables_offset);
  const int heads = args.kv_heads * args.parts;
  int stage = 0;
  uint32_t parity = 1;
  for (int work_idx = blockIdx.x; work_idx < num_items * heads; work_idx += gridDim.x) {
    const PrefillWork work = prefill_work(args, work_idx, num_items);
    for (int tile = first_tile_of(args, work.item); tile < work.item.end_tile; ++tile) {
      const std::byte* const keys =
          keys_of<kDim>(args, tables[work.item.table + tile], work.kv_head);
      const uint32_t target = shared + stage * Layout::kStageBytes;
      const uint32_t filled = shared + Layout::kBarriers + stage * 16;
      barrier_wait(filled + 8, parity);
      barrier_arrive_expect_tx(filled, Layout::kStageBytes);
      bulk_copy(target, keys, tile_bytes(kDim), filled);
      bulk_copy(target + tile_bytes(kDim), keys + value_offset<kDim>(args), tile_bytes(kDim),
                filled);
      if (++stage == kPrefillStages) {
        stage = 0;
        parity ^= 1;
      }
    }
  }
}

// Zeroes a tile's values from its position `first` on. They are unwritten memory that may hold NaN,
// and a probability of zero would not remove it.
template <int kDim>
__device__ __forceinline__ void clear_values(uint32_t values, int first, int thread) {
  constexpr int kPieces = kDim / 8;
  for (int i = first * kPieces + thread; i < kTilePositions * kPieces; i += 128) {
    const int row = i / kPieces;
    store_shared_16(values + row * kPanelRowBytes + kv_piece(i % kPieces, row),
                    make_uint4(0, 0, 0, 0));
  }
}

#endif

}  // namespace forerun::cuda
