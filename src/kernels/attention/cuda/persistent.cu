// Attention of many sequences with few rows each. A worker is a warpgroup with a ring of tiles,
// which its own loading warp keeps full across all of its runs. Two workers share an SM and nothing
// else. The plan assigns tiles to workers in even shares (attention/cuda/persistent_schedule.h),
// whatever the lengths of the sequences, so that all of them stream the cache until the end.
//
// The lower bound of its time is the cache's bytes over the memory's bandwidth. A tile of 64
// positions takes a worker as long with 4 of its 64 columns (one query head of one row each) as
// with all, and less time than the memory takes to bring each of an SM's two workers a tile
// (docs/kernels/attention.md).
//
// Afterwards each row processes the tiles that it finds through its own list, those of a tree, with
// one warp (attention/cuda/own_tiles.h). If a unit has several partial results, all blocks merge
// them in the end (attention/cuda/merge.h).
#include <cuda_bf16.h>

#include "base/status_macros.h"
#include "device/cuda/cuda_error.h"
#include "kernels/attention/cuda/columns.h"
#include "kernels/attention/cuda/kernels.h"
#include "kernels/attention/cuda/keys.h"
#include "kernels/attention/cuda/load.h"
#include "kernels/attention/cuda/merge.h"
#include "kernels/attention/cuda/own_tiles.h"
#include "kernels/attention/cuda/persistent_columns.h"
#include "kernels/attention/cuda/persistent_load.h"
#include "kernels/attention/cuda/prefill_load.h"
#include "kernels/cuda/launch.h"
#include "kernels/cuda/ptx.h"

namespace forerun::cuda {
namespace {

#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900

// A worker's shared memory, and the next tile of its ring.
template <int kDim>
struct PersistentWorker {
  using Layout = PersistentLayout<kDim>;
  uint32_t ring, queries, barriers;
  int lane = threadIdx.x % 32;
  int thread = static_cast<int>(threadIdx.x) % 128;
  int meeting = 2 + static_cast<int>(threadIdx.x) / 128;  // number of the worker's barrier
  int stage = 0;
  uint32_t parity = 0;

  __device__ __forceinline__ void meet() const { named_barrier(meeting, 128); }
  __device__ __forceinline__ uint32_t filled() const { return barriers + stage * 16; }
  __device__ __forceinline__ SharedTile wait_next() const {
    const uint32_t keys = ring + stage * Layout::kStageBytes;
    barrier_wait(filled(), parity);
    return {keys, keys + tile_bytes(kDim)};
  }
  __device__ __forceinline__ void release() {
    __syncwarp();
    if (lane == 0) barrier_arrive(filled() + 8);
    if (++stage == Layout::kStages) {
      stage = 0;
      parity ^= 1;
    }
  }
};

// Zeroes the unwritten part of a tile's values, whose contents are undefined.
template <int kDim>
__device__ __forceinline__ void clear_unwritten(const PersistentWorker<kDim>& worker,
                                                const RunWork& work, int begin, uint32_t values) {
  const int written = work.item.prefix_tokens - begin;
  if (written >= kTilePositions) return;
  clear_values<kDim>(values, written, worker.thread);
  fence_async_proxy();
  worker.meet();
}

// A unit's sums: those of the current span, and the total of the spans before it.
template <int kDim>
struct PersistentSums {
  ColumnSums<kDim> span, total;
  // Counters by which the unit's workers signal one another and the merging blocks.
  uint32_t* arrivals;
  bool waits;  // whether to wait for the total of the worker with the unit's first tiles

  __device__ __forceinline__ PersistentSums(const RunWork& work, uint32_t* arrivals)
      : arrivals(arrivals), waits(work.run.takes_up != 0) {
    span.clear();
    total.clear();
  }
  __device__ __forceinline__ void take_up(const AttentionArgs& args, const RunWork& work,
                                          const PersistentColumns& columns) {
    if (!wait_acquire(arrivals, kHandedOver)) *args.failed = 1;
    __syncwarp();
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      if (columns.last_visible[i] < 0) continue;
      load_column(args, total, i, columns.total_partial(args, work, i, work.item.end_tile),
                  work.head, columns.own_head(args, i));
    }
    waits = false;
  }
  // Merges the spans that end with a tile into the total or, if the unit is split, stores them as
  // partial results.
  __device__ __forceinline__ void end_spans(const AttentionArgs& args, const RunWork& work,
                                            const PersistentColumns& columns, int tile) {
    bool ends[2];
    bool all_end = work.run.splits == 0;
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      ends[i] = columns.last_visible[i] >= tile * kTilePositions &&
                ends_span(columns.last_visible[i], tile);
      all_end = all_end && (ends[i] || columns.last_visible[i] < 0);
    }
    if (!__any_sync(~0u, ends[0] || ends[1])) return;
    if (waits) take_up(args, work, columns);
    if (__all_sync(~0u, all_end)) {
      span.reduce_lanes();
      merge(total, span);
      span.clear();
      return;
    }
    ColumnSoftmax reduced = span;
    reduced.reduce_lanes();
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      if (!ends[i]) continue;
      span.exp_sum[i][0] = reduced.exp_sum[i][0];
      if (work.run.splits != 0) {
        store_column(args, span, i,
                     columns.first_partial(args, work, i) + span_of(columns.last_visible[i], tile),
                     work.head, columns.own_head(args, i));
      } else {
        merge_column(total, span, i);
      }
      clear_column(span, i);
    }
  }
};

// Stores the result of a run for a unit: outputs or, for others to continue from, the total of its
// tiles. The partial results of a split unit are stored already. Announces it to the waiting
// workers and rows.
template <int kDim>
__device__ __forceinline__ void store_run(const AttentionArgs& args,
                                          const PersistentWorker<kDim>& worker, const RunWork& work,
                                          const PersistentColumns& columns,
                                          const PersistentSums<kDim>& sums) {
  const bool keeps = work.run.hands_over != 0 || work.run.keeps != 0 || work.item.own_tiles > 0;
  if (!keeps && work.run.splits == 0) {
    store_output(args, work, columns, sums.total);
    return;
  }
  if (work.run.splits == 0) {
    const int tiles = work.run.keeps != 0 ? work.end_tile : work.item.end_tile;
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      if (columns.last_visible[i] < 0) continue;
      store_column(args, sums.total, i, columns.total_partial(args, work, i, tiles), work.head,
                   columns.own_head(args, i));
    }
  }
  worker.meet();  // all writes are done
  if (worker.thread == 0) {
    const bool is_taken_up = work.item.own_tiles > 0 && work.item.is_split == 0;
    arrive_release(sums.arrivals, work.run.hands_over != 0 ? kHandedOver
                                  : is_taken_up            ? kTotalReady
                                                           : 1);
  }
}

// Processes a worker's runs, in its warpgroup. Unless `waited`, it waits for the previous kernel
// before it reads queries, or at the end.
template <int kDim>
__device__ __forceinline__ void attend_runs(const AttentionArgs& args,
                                            PersistentWorker<kDim> worker, int worker_idx,
                                            bool waited) {
  const int heads = args.kv_heads * args.parts;
  for_each_unit(args, worker_idx, [&](const RunWork& work) {
    const int part_heads = work.part_heads(args);
    const int first_head = work.first_head(args);
    ColumnQueries<kDim, false> queries;
    queries.plan(args, work.item.first_row, work.item.num_rows, part_heads, [&](int row) {
      return args.q + (int64_t{row} * args.num_heads + first_head) * kDim;
    });
    const PersistentColumns columns(args, work);
    if (!waited) wait_for_previous_kernel();
    waited = true;
    worker.meet();  // no thread reads the previous queries any more
    queries.stage(worker.queries);
    worker.meet();

    PersistentSums<kDim> sums(work, args.arrivals + work.item.query_tile * heads + work.head);
    for (int tile = work.first_tile; tile < work.end_tile; ++tile) {
      const int begin = tile * kTilePositions;
      const SharedTile in = worker.wait_next();
      float score[8][4];
      score_tile<kDim>(score, worker.queries, kPanelBytes, in.keys);
      columns.mask(args, work, begin, score);
      clear_unwritten<kDim>(worker, work, begin, in.values);
      uint32_t probs[4][4];
      exponentiate<kDim>(score, sums.span, probs);
      add_tile<kDim>(sums.span, probs, in.values);
      worker.release();
      sums.end_spans(args, work, columns, tile);
    }
    if (sums.waits) sums.take_up(args, work, columns);
    store_run<kDim>(args, worker, work, columns, sums);
  });
  if (!waited) wait_for_previous_kernel();
}

// Merges the block's share of the units with several partial results, one warp per column.
template <int kDim>
__device__ __forceinline__ void merge_units_of_runs(const AttentionArgs& args, uint32_t shared) {
  constexpr int kLaneDims = kDim / 32;
  constexpr int kRoom = PersistentLayout<kDim>::kQueries / kWarps;
  constexpr int kAhead = kRoom / merge_bytes(kLaneDims);
  const int lane = threadIdx.x % 32;
  const int warp = threadIdx.x / 32;
  const int heads = args.kv_heads * args.parts;
  const auto* const query_tiles =
      step_data<AttentionItemCuda>(args.step, args.step->prefix_items_offset);
  const int count = args.step->num_merges * kPersistentColumns;
  for (int index = warp * static_cast<int>(gridDim.x) + static_cast<int>(blockIdx.x); index < count;
       index += static_cast<int>(gridDim.x) * kWarps) {
    const int column = index / args.step->num_merges;
    const AttentionMergeCuda unit_merge = step_data<AttentionMergeCuda>(
        args.step, args.step->merges_offset)[index - column * args.step->num_merges];
    const AttentionItemCuda item = query_tiles[unit_merge.query_tile];
    MergeTask task;
    const int of_item = args.by_row_columns.divide(column);
    task.kv_head = unit_merge.part / args.parts;
    task.part = unit_merge.part % args.parts;
    task.own_head = column - of_item * args.row_columns;
    if (of_item >= item.num_rows || task.own_head >= min(args.group_heads - task.part * 8, 8)) {
      continue;
    }
    task.row_idx = item.first_row + of_item;
    task.row = step_data<AttentionRowCuda>(args.step, args.step->rows_offset)[task.row_idx];
    task.first_span = max(span_of_total(task.row.last_visible, unit_merge.total_tiles),
                          first_span_of(args, task.row.last_visible));
    task.end_span = num_spans(task.row.last_visible);
    if (!wait_acquire(args.arrivals + unit_merge.query_tile * heads + unit_merge.part,
                      static_cast<uint32_t>(unit_merge.arrivals))) {
      if (lane == 0) *args.failed = 1;
      return;
    }
    __syncwarp();
    merge_partials<kDim, kLaneDims>(args, task, 0, lane, shared + warp * kRoom, kAhead);
  }
}

template <int kDim>
__global__ void __launch_bounds__(kPersistentThreads, 1)
    attention_persistent_kernel(const __grid_constant__ AttentionArgs args) {
  using Layout = PersistentLayout<kDim>;
  const uint32_t shared = dynamic_shared_address();
  if (threadIdx.x == 0) {
    for (int i = 0; i < kPersistentWorkers * Layout::kStages; ++i) {
      barrier_init(shared + Layout::kBarriers + i * 16, 1);
      barrier_init(shared + Layout::kBarriers + i * 16 + 8, 4);
    }
    barrier_init_fence();
  }
  __syncthreads();
  if (!args.early) wait_for_previous_kernel();
  const int warp = static_cast<int>(threadIdx.x) / 32;
  const bool is_producer = warp >= kWarps;
  const int own = is_producer ? warp - kWarps : warp / 4;  // number among the block's workers
  const int worker = own * static_cast<int>(gridDim.x) + static_cast<int>(blockIdx.x);
  const uint32_t ring = shared + own * Layout::kRingBytes;
  const uint32_t barriers = shared + Layout::kBarriers + own * Layout::kStages * 16;
  if (is_producer) {
    warpgroup_reg_dealloc<40>();
    if (own < kPersistentWorkers) {
      produce_tiles<kDim>(args, ring, barriers, worker, !args.early);
    } else if (args.early) {
      wait_for_previous_kernel();
    }
    return;
  }
  warpgroup_reg_alloc<232>();
  attend_runs<kDim>(args, {ring, shared + Layout::kQueries + own * tile_bytes(kDim), barriers},
                    worker, !args.early);
  launch_dependents();
  const int flags = args.step->num_query_tiles * args.kv_heads * args.parts;
  for (int i = blockIdx.x * kThreads + threadIdx.x; i < flags; i += gridDim.x * kThreads) {
    args.to_clear[i] = 0;
  }
  if (args.step->num_items > 0) {
    static_assert(kWarps * OwnTile<kDim>::kBytes <= Layout::kQueries);
    meet();  // the rings are free
    attend_own_tiles<kDim>(args, shared);
  }
  if (args.step->num_merges > 0) {
    meet();
    merge_units_of_runs<kDim>(args, shared);
  }
}

#else

// A stub below sm_90, which has no wgmma; it is never launched there.
template <int kDim>
__global__ void attention_persistent_kernel(const __grid_constant__ AttentionArgs) {}

#endif

using Kernel = void (*)(AttentionArgs);
Kernel kernel_for(int padded_dim) {
  return padded_dim == 64 ? attention_persistent_kernel<64> : attention_persistent_kernel<128>;
}
constexpr int persistent_bytes(int padded_dim) {
  return padded_dim == 64 ? PersistentLayout<64>::kBytes : PersistentLayout<128>::kBytes;
}

}  // namespace

Status prepare_attention_persistent_cuda() {
  for (const int dim : {64, 128}) {
    FORERUN_RETURN_IF_ERROR(allow_shared_memory(kernel_for(dim), persistent_bytes(dim),
                                                "loading the attention kernels"));
  }
  return {};
}

Status attention_persistent_cuda(const AttentionCallCuda& call, cudaStream_t stream) {
  const int dim = padded_head_dim_cuda(call.kv.head_dim);
  AttentionArgs args = attention_args_of_rows(call);
  FORERUN_ASSIGN_OR_RETURN(const int multiprocessors, multiprocessor_count());
  return launch_dependent(kernel_for(dim), dim3(static_cast<unsigned>(multiprocessors)),
                          dim3(kPersistentThreads), static_cast<size_t>(persistent_bytes(dim)),
                          stream, "launching attention", args);
}

}  // namespace forerun::cuda
