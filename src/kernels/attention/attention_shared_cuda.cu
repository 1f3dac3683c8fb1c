// Attention of few rows over long prefixes that they share. A span that all rows of some groups see
// goes through shared memory once for up to 128 columns (a row's query head each), 64 a warpgroup;
// spans in which rows differ, the last ones, are taken by a warp a row (attention_item_cuda.h).
// Partial results meet in the L2, and every block merges a share of them (attention_merge_cuda.h).
//
// Floor: the cache's bytes over the memory's bandwidth.
//  - one launch, half of an SM a block: its first tiles are requested while the layer before it
//    runs, the next layer's weights while it merges;
//  - a warp of its own keeps a ring of keys and values full, across items; the two warpgroups take
//    items of up to 64 columns in turn, so that one's last products and stores hide behind the
//    other's tiles;
//  - a column's weights stay in registers between the two products.
#include <cuda_bf16.h>

#include "device/cuda/cuda_error.h"
#include "kernels/attention/attention_columns_cuda.h"
#include "kernels/attention/attention_item_cuda.h"
#include "kernels/attention/attention_merge_cuda.h"
#include "kernels/attention/attention_shared_cuda.h"
#include "kernels/attention/attention_shared_load_cuda.h"
#include "kernels/launch_cuda.h"
#include "kernels/linear/ptx_cuda.h"

namespace forerun::cuda {
namespace {

#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900

// The block's prefix items, a warpgroup's part of them; waits for the previous kernel before it
// reads queries, or at the end. Leaves the ring where the items end.
template <int kDim, bool kFused>
__device__ __forceinline__ void attend_prefixes(const AttentionArgs& args, uint32_t shared,
                                                SharedRing<kDim>& ring) {
  using Layout = SharedLayout<kDim>;
  const int lane = threadIdx.x % 32;
  const int group = threadIdx.x / 128;
  const int column = threadIdx.x % 128 / 32 * 16 + lane / 4;  // the lane's first
  const int group_rows = args.by_row_columns.divide(64);
  const uint32_t queries = shared + Layout::kQueries + group * tile_bytes(kDim);
  int narrow = 0;
  bool waited = !args.early;
  for (int index = 0;; ++index) {
    barrier_wait(work_barrier<kDim>(shared, index), work_parity<kDim>(index));
    const uint32_t work = work_at<kDim>(shared, index);
    const auto word = [&](int at) { return static_cast<int>(load_shared_4(work + at * 4)); };
    const PrefixWork the = {word(0), word(1), word(2), word(3), word(4), word(5)};
    const bool wide = the.num_rows > group_rows;
    const bool is_mine = wide || narrow % 2 == group;
    narrow += wide ? 0 : 1;
    const int skipped = wide ? group * group_rows : 0;  // rows of the other warpgroup
    const int num_rows = min(the.num_rows - skipped, group_rows);
    const int part = the.head % args.parts;
    const int part_heads = min(args.group_heads - part * 8, 8);
    // Of the lane's two columns; -1: there is none.
    int partial[2], position[2], own_head[2];
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const int row = args.by_row_columns.divide(column + 8 * i);
      own_head[i] = column + 8 * i - row * args.row_columns;
      const bool is_there = row < num_rows && own_head[i] < part_heads;
      const uint32_t at = work_row_at(work, is_there ? skipped + row : 0);
      partial[i] = is_there ? static_cast<int>(load_shared_4(at)) : -1;
      position[i] = static_cast<int>(load_shared_4(at + 4));
    }
    barrier_arrive(work_barrier<kDim>(shared, index) + 8);
    if (the.num_rows == 0) break;
    if (!is_mine) {
      ring.unit += 2 * the.tiles;
      continue;
    }
    const int first_head = the.head / args.parts * args.group_heads + part * 8;
    ColumnQueries<kDim, kFused> columns;
    columns.plan(args, the.first_row + skipped, num_rows, part_heads, [&](int row) {
      return kFused ? args.qkv + row * args.qkv_stride + first_head * kDim
                    : args.q + (int64_t{row} * args.num_heads + first_head) * kDim;
    });
    if (!waited) wait_for_previous_kernel();
    waited = true;
    named_barrier(2 + group, 128);  // nobody needs the last queries
    columns.stage(queries);
    named_barrier(2 + group, 128);

    const int arrivals = wide ? 1 : 2;
    ColumnSums<kDim> sums;
    sums.clear();
    for (int tile = 0; tile < the.tiles; ++tile) {
      float score[8][4];
      score_tile<kDim>(score, queries, kPanelBytes, ring.wait(ring.unit));
      ring.release(ring.unit, arrivals);
      scale_scores(score, args.scale_log2);
      if (args.window > 0) {
        hide_before_window(score, the.first_position + tile * kTilePositions, lane,
                           [&](int i) { return position[i >> 1] - args.window + 1; });
      }
      uint32_t weights[4][4];
      weigh<kDim, 2>(score, sums, weights);
      add_tile<kDim>(sums, weights, ring.wait(ring.unit + 1));
      ring.release(ring.unit + 1, arrivals);
      ring.unit += 2;
    }
    sums.close();
    if (the.tiles > 0) {
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        if (partial[i] >= 0) {
          store_partial<kDim>(args, sums, i, partial[i], the.head, own_head[i], lane);
        }
      }
    }
    named_barrier(2 + group, 128);  // the partial results are written
    const int groups = (the.num_rows - 1) / kGroupRows + 1;
    if (static_cast<int>(threadIdx.x) % 128 < groups) {
      arrive_release(
          args.arrivals +
              (the.group + static_cast<int>(threadIdx.x) % 128) * (args.kv_heads * args.parts) +
              the.head,
          static_cast<uint32_t>(arrivals));
    }
  }
  if (!waited) wait_for_previous_kernel();
}

// 128 registers a thread: beside a block of a linear layer.
template <int kDim, bool kFused>
__global__ void __maxnreg__(128)
    attention_shared_kernel(const __grid_constant__ AttentionArgs args) {
  using Layout = SharedLayout<kDim>;
  extern __shared__ __align__(1024) std::byte memory[];
  const uint32_t shared = shared_address(memory);
  SharedRing<kDim> ring = {shared};
  if (threadIdx.x == 0) {
    ring.init();
    for (int i = 0; i < Layout::kWorkSlots; ++i) {
      barrier_init(work_barrier<kDim>(shared, i), 32);
      barrier_init(work_barrier<kDim>(shared, i) + 8, kThreads);
    }
    barrier_init_fence();
  }
  __syncthreads();
  if (!args.early) wait_for_previous_kernel();
  if (threadIdx.x >= kThreads) {
    feed<kDim, kFused>(args, shared);
    return;
  }
  attend_prefixes<kDim, kFused>(args, shared, ring);
  launch_dependents();
  const int heads = args.kv_heads * args.parts;
  for (int i = blockIdx.x * kThreads + threadIdx.x; i < args.step->num_groups * heads;
       i += gridDim.x * kThreads) {
    args.to_clear[i] = 0;
  }
  const int count = args.step->num_items * heads;
  int work = static_cast<int>(gridDim.x - 1 - blockIdx.x);
  if (work < count) meet();  // queries are needed no more
  for (; work < count; work += gridDim.x) {
    const AttentionItemCuda item =
        step_data<AttentionItemCuda>(args.step, args.step->items_offset)[work / heads];
    const int head = work % heads;
    attend_item<kDim, kFused>(
        args, item, head, shared + Layout::kQueries, shared + Layout::kLists, ring,
        [&](const RowTask<kDim>& task, int tile, const RowSum<kDim>& span) {
          const int partial = task.row.first_partial + span_of(task.row.position, tile);
          store_partial<kDim>(args, span, partial, head, threadIdx.x % 32);
        });
    meet();  // every warp's partial results are written
    if (threadIdx.x == 0) arrive_release(args.arrivals + item.group * heads + head, 1);
  }
  merge_share<kDim>(args, shared, Layout::kBarriers, /*everywhere=*/true);
}

#else

// Below sm_90 there is no wgmma; never launched there.
template <int kDim, bool kFused>
__global__ void attention_shared_kernel(const __grid_constant__ AttentionArgs) {}

#endif

using Kernel = void (*)(AttentionArgs);
Kernel kernel_for(int padded_dim, bool fused) {
  return padded_dim == 64
             ? (fused ? attention_shared_kernel<64, true> : attention_shared_kernel<64, false>)
             : (fused ? attention_shared_kernel<128, true> : attention_shared_kernel<128, false>);
}
constexpr int block_bytes(int padded_dim) {
  return padded_dim == 64 ? SharedLayout<64>::kBytes : SharedLayout<128>::kBytes;
}

}  // namespace

Status prepare_attention_shared_cuda() {
  for (const int dim : {64, 128}) {
    for (const bool fused : {false, true}) {
      FORERUN_RETURN_IF_ERROR(allow_shared_memory(kernel_for(dim, fused), block_bytes(dim),
                                                  "loading the attention kernels"));
    }
  }
  return {};
}

Status attention_shared_cuda(const AttentionCallCuda& call, cudaStream_t stream) {
  const int dim = padded_head_dim_cuda(call.kv.head_dim);
  const bool fused = call.mode == AttentionMode::kFused;
  AttentionArgs args = attention_args_of_rows(call);
  args.early = call.early && fused;  // otherwise the previous kernel has appended to the cache
  FORERUN_ASSIGN_OR_RETURN(const int multiprocessors, multiprocessor_count());
  return launch_dependent(kernel_for(dim, fused), dim3(static_cast<unsigned>(multiprocessors)),
                          dim3(kSharedThreads), static_cast<size_t>(block_bytes(dim)), stream,
                          "launching attention", args);
}

}  // namespace forerun::cuda
