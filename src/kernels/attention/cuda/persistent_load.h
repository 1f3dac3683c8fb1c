// The shared-memory layout of kPersistent (attention/cuda/persistent.cu), the iteration over a
// worker's runs, and the warp that loads a worker's tiles. Device code; only that kernel includes
// it.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/attention/cuda/args.h"
#include "kernels/attention/cuda/keys.h"
#include "kernels/cuda/ptx.h"

namespace forerun::cuda {

// Threads of a block: two workers, then the warps that load their tiles.
constexpr int kPersistentThreads = kThreads + 128;

template <int kDim>
struct PersistentLayout {
  static constexpr int kStages = 384 / kDim;                // stages of a worker's ring: 3 or 6
  static constexpr int kStageBytes = 2 * tile_bytes(kDim);  // keys, then values
  static constexpr int kRingBytes = kStages * kStageBytes;
  static constexpr int kQueries = kPersistentWorkers * kRingBytes;  // [worker] panels of 64 columns
  static constexpr int kBarriers = kQueries + kPersistentWorkers * tile_bytes(kDim);
  // Two barriers per stage: filled, free.
  static constexpr int kBytes = kBarriers + kPersistentWorkers * kStages * 16;
};

#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900

// A unit of a run.
struct RunWork {
  AttentionRunCuda run;
  AttentionItemCuda item;
  int head;  // part of a key/value head
  int first_tile, end_tile;

  // Returns the number of query heads of the part.
  __device__ __forceinline__ int part_heads(const AttentionArgs& args) const {
    return min(args.group_heads - head % args.parts * 8, 8);
  }
  __device__ __forceinline__ int first_head(const AttentionArgs& args) const {
    return head / args.parts * args.group_heads + head % args.parts * 8;
  }
};

// Calls `visit(work)` for each unit of the runs of a worker, in order.
template <class Visit>
__device__ __forceinline__ void for_each_unit(const AttentionArgs& args, int worker,
                                              const Visit& visit) {
  if (worker >= args.step->num_workers) return;
  const int heads = args.kv_heads * args.parts;
  const AttentionWorkerCuda worker_runs =
      step_data<AttentionWorkerCuda>(args.step, args.step->workers_offset)[worker];
  const auto* const query_tiles =
      step_data<AttentionItemCuda>(args.step, args.step->prefix_items_offset);
  for (int index = worker_runs.first_run; index < worker_runs.end_run; ++index) {
    RunWork work;
    work.run = step_data<AttentionRunCuda>(args.step, args.step->runs_offset)[index];
    for (int unit = work.run.first_unit; unit < work.run.first_unit + work.run.num_units; ++unit) {
      const int query_tile = unit / heads;
      work.item = query_tiles[query_tile];
      work.head = unit - query_tile * heads;
      work.end_tile = work.run.end_tile > 0 ? work.run.end_tile : work.item.end_tile;
      const int seen =
          args.window > 0 ? max(work.item.lowest - args.window + 1, 0) / kTilePositions : 0;
      work.first_tile = max(work.run.first_tile, seen);
      visit(work);
    }
  }
}

// Copies the worker's tiles into its ring; one warp calls it. If `waited` is false, requests the
// tiles that the previous kernel does not write before that kernel ends, and waits before the
// others.
template <int kDim>
__device__ __forceinline__ void produce_tiles(const AttentionArgs& args, uint32_t ring,
                                              uint32_t barriers, int worker, bool waited) {
  using Layout = PersistentLayout<kDim>;
  const int lane = threadIdx.x % 32;
  const auto* const tables = step_data<int32_t>(args.step, args.step->tables_offset);
  int stage = 0;
  uint32_t parity = 1;
  for_each_unit(args, worker, [&](const RunWork& work) {
#pragma unroll 1
    for (int begin = work.first_tile; begin < work.end_tile; begin += 32) {
      const int of_lane = min(begin + lane, work.end_tile - 1);
      const std::byte* const own =
          keys_of<kDim>(args, tables[work.item.table + of_lane], work.head / args.parts);
#pragma unroll 1
      for (int i = 0; i < min(32, work.end_tile - begin); ++i) {
        if (!waited && (begin + i + 1) * kTilePositions > work.item.stable_tokens) {
          wait_for_previous_kernel();
          waited = true;
        }
        const auto keys = reinterpret_cast<const std::byte*>(
            __shfl_sync(~0u, reinterpret_cast<uint64_t>(own), i));
        if (lane == 0) {
          const uint32_t filled = barriers + stage * 16;
          const uint32_t target = ring + stage * Layout::kStageBytes;
          barrier_wait(filled + 8, parity);
          barrier_arrive_expect_tx(filled, Layout::kStageBytes);
          bulk_copy(target, keys, tile_bytes(kDim), filled);
          bulk_copy(target + tile_bytes(kDim), keys + value_offset<kDim>(args), tile_bytes(kDim),
                    filled);
        }
        if (++stage == Layout::kStages) {
          stage = 0;
          parity ^= 1;
        }
      }
    }
  });
  if (!waited) wait_for_previous_kernel();
}

#endif

}  // namespace forerun::cuda
