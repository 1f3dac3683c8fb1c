// Attention of many sequences with few rows each. A worker is a warpgroup with a ring of tiles that
// a warp of its own keeps full across all of its runs; two share a multiprocessor and nothing else.
// The plan deals tiles to workers in even shares (attention/cuda/run_deal.h), whatever the lengths
// of the sequences, so that all of them stream the cache until the end.
//
// Floor: the cache's bytes over the memory's bandwidth. A tile of 64 positions takes a worker about
// 1 us, whether 4 of its 64 columns (a row's query head each) are there or all; the memory brings
// an SM's two workers one each in 1.9.
//
// What a row sees by its own list, the tiles of a tree, rows take by themselves afterwards, a warp
// each (attention/cuda/own_tiles.h). Partial results, where there are more than one of a unit, are
// merged by all blocks in the end (attention/cuda/merge.h).
#include <cuda_bf16.h>

#include "base/status_macros.h"
#include "device/cuda/cuda_error.h"
#include "kernels/attention/cuda/columns.h"
#include "kernels/attention/cuda/kernels.h"
#include "kernels/attention/cuda/merge.h"
#include "kernels/attention/cuda/own_tiles.h"
#include "kernels/attention/cuda/runs_load.h"
#include "kernels/attention/cuda/tiles_load.h"
#include "kernels/cuda/launch.h"
#include "kernels/cuda/ptx.h"

namespace forerun::cuda {
namespace {

#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900

// What a lane keeps of its two columns, g and g + 8 of its warp's 16; the rest is found again where
// a span or a run ends.
struct RunColumns {
  int position[2];  // -1: there is no such column
  int highest;      // of all rows

  __device__ __forceinline__ RunColumns(const AttentionArgs& args, const RunWork& the) {
    const int lane = threadIdx.x % 32;
    const int part_heads = min(args.group_heads - the.head % args.parts * 8, 8);
    highest = -1;
    for (int i = lane; i < the.item.num_rows; i += 32) {
      highest = max(highest, rows(args)[the.item.first_row + i].position);
    }
    highest = __reduce_max_sync(~0u, highest);
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const int of_item = args.by_row_columns.divide(column(i));
      const bool is_there = of_item < the.item.num_rows && own_head(args, i) < part_heads;
      position[i] = is_there ? rows(args)[the.item.first_row + of_item].position : -1;
    }
  }
  __device__ __forceinline__ static const AttentionRowCuda* rows(const AttentionArgs& args) {
    return step_data<AttentionRowCuda>(args.step, args.step->rows_offset);
  }
  __device__ __forceinline__ static int column(int i) {
    return static_cast<int>(threadIdx.x) % 128 / 32 * 16 + static_cast<int>(threadIdx.x) % 32 / 4 +
           8 * i;
  }
  __device__ __forceinline__ static int own_head(const AttentionArgs& args, int i) {  // of the part
    return column(i) - args.by_row_columns.divide(column(i)) * args.row_columns;
  }
  // Of columns that are there.
  __device__ __forceinline__ static int row(const AttentionArgs& args, const RunWork& the, int i) {
    return the.item.first_row + args.by_row_columns.divide(column(i));
  }
  __device__ __forceinline__ static int first_partial(const AttentionArgs& args, const RunWork& the,
                                                      int i) {
    return rows(args)[row(args, the, i)].first_partial;
  }
  // Hides scores of a tile that a column does not see, and scales the others.
  __device__ __forceinline__ void mask(const AttentionArgs& args, const RunWork& the, int begin,
                                       float (&score)[8][4]) const {
    if (begin + kTilePositions <= the.item.lowest + 1 &&
        (args.window == 0 || begin > highest - args.window)) {
      scale_scores(score, args.scale_log2);
      return;
    }
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int last = position[i >> 1];
      const int first = args.window > 0 ? last - args.window + 1 : 0;
#pragma unroll
      for (int j = 0; j < 8; ++j) {
        const int at = begin + 8 * j + 2 * (threadIdx.x & 3) + (i & 1);
        score[j][i] =
            at <= last && at >= first ? __fmul_rn(score[j][i], args.scale_log2) : kNothing;
      }
    }
  }
};

template <int kDim>
__device__ __forceinline__ void store_column(const AttentionArgs& args,
                                             const ColumnSums<kDim>& sums, int half, int partial,
                                             int head, int own_head) {
  const int lane = threadIdx.x % 32;
  store_partial_values<kDim>(args, sums.out, half, partial, head, own_head, lane);
  store_partial_softmax<kDim>(args, sums, half, partial, head, own_head, lane);
}

// The way back of store_column().
template <int kDim>
__device__ __forceinline__ void load_column(const AttentionArgs& args, ColumnSums<kDim>& sums,
                                            int half, int partial, int head, int own_head) {
  const float* const from = partial_at(args, partial, head);
#pragma unroll
  for (int m = 0; m < kDim / 16; ++m) {
    const float* const at = from + own_head * kDim + m * 16 + (threadIdx.x & 3) * 4;
    const float2 low = load_pair_through_l2(at);
    const float2 high = load_pair_through_l2(at + 2);
    sums.out[2 * m][2 * half] = low.x;
    sums.out[2 * m][2 * half + 1] = low.y;
    sums.out[2 * m + 1][2 * half] = high.x;
    sums.out[2 * m + 1][2 * half + 1] = high.y;
  }
  const float2 softmax = load_pair_through_l2(from + args.row_columns * kDim + own_head * 2);
  sums.most[half] = softmax.x;
  sums.exp_sum[half][0] = softmax.y;
}

// A column's span has ended, closed: it joins the total, and the next begins.
template <int kDim>
__device__ __forceinline__ void merge_column(ColumnSums<kDim>& total, ColumnSums<kDim>& span,
                                             int half) {
  const float2 factors = merge_factors(total.most[half], span.most[half]);
  total.most[half] = fmaxf(total.most[half], span.most[half]);
  total.exp_sum[half][0] = merged(total.exp_sum[half][0], span.exp_sum[half][0], factors);
#pragma unroll
  for (int j = 0; j < kDim / 8; ++j) {
#pragma unroll
    for (int odd = 0; odd < 2; ++odd) {
      float& out = total.out[j][2 * half + odd];
      out = merged(out, span.out[j][2 * half + odd], factors);
    }
  }
}
template <int kDim>
__device__ __forceinline__ void clear_column(ColumnSums<kDim>& sums, int half) {
  sums.most[half] = kNothing;
  sums.exp_sum[half][0] = sums.exp_sum[half][1] = 0.0f;
#pragma unroll
  for (int j = 0; j < kDim / 8; ++j) sums.out[j][2 * half] = sums.out[j][2 * half + 1] = 0.0f;
}

template <int kDim>
__device__ __forceinline__ void store_output(const AttentionArgs& args, const RunWork& the,
                                             const RunColumns& columns,
                                             const ColumnSums<kDim>& total) {
  const int first_head = the.head / args.parts * args.group_heads + the.head % args.parts * 8;
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    if (columns.position[i] < 0) continue;
    uint16_t* const out = args.attended + columns.row(args, the, i) * args.attended_stride +
                          (first_head + columns.own_head(args, i)) * args.head_dim;
#pragma unroll
    for (int j = 0; j < kDim / 8; ++j) {
      const int dim = 8 * j + 2 * (threadIdx.x & 3);
      if (dim >= args.head_dim) break;
      *reinterpret_cast<uint32_t*>(out + dim) = pack_activations(
          args.attended_format, __fdiv_rn(total.out[j][2 * i], total.exp_sum[i][0]),
          __fdiv_rn(total.out[j][2 * i + 1], total.exp_sum[i][0]));
    }
  }
}

// A worker, a warpgroup. Waits for the previous kernel before it reads queries, or at the end, if
// not `waited`.
template <int kDim>
__device__ __forceinline__ void attend_runs(const AttentionArgs& args, uint32_t ring,
                                            uint32_t queries, uint32_t barriers, int worker,
                                            bool waited) {
  using Layout = RunsLayout<kDim>;
  const int lane = threadIdx.x % 32;
  const int thread = static_cast<int>(threadIdx.x) % 128;
  const int meeting = 2 + static_cast<int>(threadIdx.x) / 128;  // the worker's barrier
  const int heads = args.kv_heads * args.parts;
  int stage = 0;
  uint32_t parity = 0;
  for_each_unit(args, worker, [&](const RunWork& the) {
    const int part_heads = min(args.group_heads - the.head % args.parts * 8, 8);
    const int first_head = the.head / args.parts * args.group_heads + the.head % args.parts * 8;
    ColumnQueries<kDim, false> staged;
    staged.plan(args, the.item.first_row, the.item.num_rows, part_heads, [&](int row) {
      return args.q + (int64_t{row} * args.num_heads + first_head) * kDim;
    });
    const RunColumns columns(args, the);
    if (!waited) wait_for_previous_kernel();
    waited = true;
    named_barrier(meeting, 128);  // nobody needs the last queries
    staged.stage(queries);
    named_barrier(meeting, 128);

    uint32_t* const arrivals = args.arrivals + the.item.group * heads + the.head;
    const auto total_partial = [&](int i, int tiles) {
      return columns.first_partial(args, the, i) + span_of_total(columns.position[i], tiles);
    };
    bool waits = the.run.takes_up != 0;
    ColumnSums<kDim> span, total;
    span.clear();
    total.clear();
    const auto take_up = [&] {
      if (!wait_acquire(arrivals, kHandedOver)) *args.failed = 1;
      __syncwarp();
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        if (columns.position[i] < 0) continue;
        load_column(args, total, i, total_partial(i, the.item.end_tile), the.head,
                    columns.own_head(args, i));
      }
      waits = false;
    };
    for (int tile = the.first_tile; tile < the.end_tile; ++tile) {
      const int begin = tile * kTilePositions;
      const uint32_t keys = ring + stage * Layout::kStageBytes;
      const uint32_t values = keys + tile_bytes(kDim);
      const uint32_t filled = barriers + stage * 16;
      barrier_wait(filled, parity);
      float score[8][4];
      score_tile<kDim>(score, queries, kPanelBytes, keys);
      columns.mask(args, the, begin, score);
      const int written = the.item.prefix_tokens - begin;
      if (written < kTilePositions) {
        clear_values<kDim>(values, written, thread);
        asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
        named_barrier(meeting, 128);
      }
      uint32_t probs[4][4];
      exponentiate<kDim>(score, span, probs);
      add_tile<kDim>(span, probs, values);
      __syncwarp();
      if (lane == 0) barrier_arrive(filled + 8);
      if (++stage == Layout::kStages) {
        stage = 0;
        parity ^= 1;
      }
      bool ends[2];
      bool all_end = the.run.splits == 0;
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        ends[i] = columns.position[i] >= begin && ends_span(columns.position[i], tile);
        all_end = all_end && (ends[i] || columns.position[i] < 0);
      }
      if (!__any_sync(~0u, ends[0] || ends[1])) continue;
      if (waits) take_up();
      if (__all_sync(~0u, all_end)) {
        span.close();
        merge(total, span);
        span.clear();
        continue;
      }
      ColumnSoftmax closed = span;
      closed.close();
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        if (!ends[i]) continue;
        span.exp_sum[i][0] = closed.exp_sum[i][0];
        if (the.run.splits != 0) {
          store_column(args, span, i,
                       columns.first_partial(args, the, i) + span_of(columns.position[i], tile),
                       the.head, columns.own_head(args, i));
        } else {
          merge_column(total, span, i);
        }
        clear_column(span, i);
      }
    }
    if (waits) take_up();
    const bool keeps = the.run.hands_over != 0 || the.run.keeps != 0 || the.item.own_tiles > 0;
    if (!keeps && the.run.splits == 0) {
      store_output(args, the, columns, total);
      return;
    }
    if (the.run.splits == 0) {
      const int tiles = the.run.keeps != 0 ? the.end_tile : the.item.end_tile;
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        if (columns.position[i] < 0) continue;
        store_column(args, total, i, total_partial(i, tiles), the.head, columns.own_head(args, i));
      }
    }
    named_barrier(meeting, 128);  // all is written
    if (thread == 0) {
      const bool is_taken_up = the.item.own_tiles > 0 && the.item.is_split == 0;
      arrive_release(arrivals, the.run.hands_over != 0 ? kHandedOver
                               : is_taken_up           ? kTotalReady
                                                       : 1);
    }
  });
  if (!waited) wait_for_previous_kernel();
}

// Merges a share of the units of which there are several partial results, a warp a column.
template <int kDim>
__device__ __forceinline__ void merge_units_of_runs(const AttentionArgs& args, uint32_t shared) {
  constexpr int kLaneDims = kDim / 32;
  constexpr int kRoom = RunsLayout<kDim>::kQueries / kWarps;
  constexpr int kAhead = kRoom / merge_bytes(kLaneDims);
  const int lane = threadIdx.x % 32;
  const int warp = threadIdx.x / 32;
  const int heads = args.kv_heads * args.parts;
  const auto* const groups =
      step_data<AttentionItemCuda>(args.step, args.step->prefix_items_offset);
  const int count = args.step->num_merges * kRunColumns;
  for (int index = warp * static_cast<int>(gridDim.x) + static_cast<int>(blockIdx.x); index < count;
       index += static_cast<int>(gridDim.x) * kWarps) {
    const int column = index / args.step->num_merges;
    const AttentionMergeCuda the_merge = step_data<AttentionMergeCuda>(
        args.step, args.step->merges_offset)[index - column * args.step->num_merges];
    const AttentionItemCuda item = groups[the_merge.group];
    MergeTask the;
    const int of_item = args.by_row_columns.divide(column);
    the.kv_head = the_merge.part / args.parts;
    the.part = the_merge.part % args.parts;
    the.own_head = column - of_item * args.row_columns;
    if (of_item >= item.num_rows || the.own_head >= min(args.group_heads - the.part * 8, 8)) {
      continue;
    }
    the.row_idx = item.first_row + of_item;
    the.row = step_data<AttentionRowCuda>(args.step, args.step->rows_offset)[the.row_idx];
    the.first_span = max(span_of_total(the.row.position, the_merge.total_tiles),
                         first_span_of(args, the.row.position));
    the.end_span = num_spans(the.row.position);
    if (!wait_acquire(args.arrivals + the_merge.group * heads + the_merge.part,
                      static_cast<uint32_t>(the_merge.arrivals))) {
      if (lane == 0) *args.failed = 1;
      return;
    }
    __syncwarp();
    merge_partials<kDim, kLaneDims>(args, the, 0, lane, shared + warp * kRoom, kAhead);
  }
}

template <int kDim>
__global__ void __launch_bounds__(kRunsThreads, 1)
    attention_runs_kernel(const __grid_constant__ AttentionArgs args) {
  using Layout = RunsLayout<kDim>;
  extern __shared__ __align__(1024) std::byte memory[];
  const uint32_t shared = shared_address(memory);
  if (threadIdx.x == 0) {
    for (int i = 0; i < kRunWorkers * Layout::kStages; ++i) {
      barrier_init(shared + Layout::kBarriers + i * 16, 1);
      barrier_init(shared + Layout::kBarriers + i * 16 + 8, 4);
    }
    barrier_init_fence();
  }
  __syncthreads();
  if (!args.early) wait_for_previous_kernel();
  const int warp = static_cast<int>(threadIdx.x) / 32;
  const bool feeds = warp >= kWarps;
  const int own = feeds ? warp - kWarps : warp / 4;  // of the block's workers
  const int worker = own * static_cast<int>(gridDim.x) + static_cast<int>(blockIdx.x);
  const uint32_t ring = shared + own * Layout::kRingBytes;
  const uint32_t barriers = shared + Layout::kBarriers + own * Layout::kStages * 16;
  if (feeds) {
    give_registers_back<40>();
    if (own < kRunWorkers) {
      feed_worker<kDim>(args, ring, barriers, worker, !args.early);
    } else if (args.early) {
      wait_for_previous_kernel();
    }
    return;
  }
  take_registers<232>();
  attend_runs<kDim>(args, ring, shared + Layout::kQueries + own * tile_bytes(kDim), barriers,
                    worker, !args.early);
  launch_dependents();
  const int flags = args.step->num_groups * args.kv_heads * args.parts;
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

// Below sm_90 there is no wgmma; never launched there.
template <int kDim>
__global__ void attention_runs_kernel(const __grid_constant__ AttentionArgs) {}

#endif

using Kernel = void (*)(AttentionArgs);
Kernel kernel_for(int padded_dim) {
  return padded_dim == 64 ? attention_runs_kernel<64> : attention_runs_kernel<128>;
}
constexpr int runs_bytes(int padded_dim) {
  return padded_dim == 64 ? RunsLayout<64>::kBytes : RunsLayout<128>::kBytes;
}

}  // namespace

Status prepare_attention_runs_cuda() {
  for (const int dim : {64, 128}) {
    FORERUN_RETURN_IF_ERROR(
        allow_shared_memory(kernel_for(dim), runs_bytes(dim), "loading the attention kernels"));
  }
  return {};
}

Status attention_runs_cuda(const AttentionCallCuda& call, cudaStream_t stream) {
  const int dim = padded_head_dim_cuda(call.kv.head_dim);
  AttentionArgs args = attention_args_of_rows(call);
  FORERUN_ASSIGN_OR_RETURN(const int multiprocessors, multiprocessor_count());
  return launch_dependent(kernel_for(dim), dim3(static_cast<unsigned>(multiprocessors)),
                          dim3(kRunsThreads), static_cast<size_t>(runs_bytes(dim)), stream,
                          "launching attention", args);
}

}  // namespace forerun::cuda
