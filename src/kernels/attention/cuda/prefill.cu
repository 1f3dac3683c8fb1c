// Attention of rows that attend only to their prefix: prompts, and plain decoding of many requests.
// A block takes adjacent rows of a sequence, with up to 64 columns (one query head of one row each)
// for each of two warpgroups, and the rows' visible tiles. A third warpgroup fills a ring of tiles.
//
// Compute-bound: its lower bound is the time of both products at wgmma's rate. A column's
// probabilities stay in registers between the two products. The bits are those of the other kernels
// (attention/cuda/columns.h): spans are merged as they end, so a lane has two sets of sums.
#include <cuda_bf16.h>

#include "base/status_macros.h"
#include "device/cuda/cuda_error.h"
#include "kernels/attention/cuda/columns.h"
#include "kernels/attention/cuda/kernels.h"
#include "kernels/attention/cuda/prefill_columns.h"
#include "kernels/attention/cuda/prefill_load.h"
#include "kernels/cuda/launch.h"
#include "kernels/cuda/ptx.h"

namespace forerun::cuda {
namespace {

#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900

template <int kDim>
__device__ __forceinline__ void store_outputs(const AttentionArgs& args,
                                              const PrefillColumns& columns, int first_column,
                                              int first_row, int first_head,
                                              const ColumnSums<kDim>& total) {
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    if (columns.last_visible[i] < 0) continue;
    const int row = first_row + args.by_row_columns.divide(first_column + 8 * i);
    store_column(total, i, args.attended_format, args.head_dim,
                 args.attended + row * args.attended_stride +
                     (first_head + columns.head[i]) * args.head_dim);
  }
}

// Runs a warpgroup, which processes its columns of all of the block's items.
template <int kDim>
__device__ __forceinline__ void attend(const AttentionArgs& args, uint32_t shared, int num_items,
                                       int warpgroup) {
  using Layout = PrefillLayout<kDim>;
  const int lane = threadIdx.x % 32;
  const int first_column = static_cast<int>(threadIdx.x) % 128 / 32 * 16 + lane / 4;
  const auto* const rows = step_data<AttentionRowCuda>(args.step, args.step->rows_offset);
  const int heads = args.kv_heads * args.parts;
  const int warpgroup_rows = 64 / args.row_columns;
  // First row of the warpgroup within an item.
  const int warpgroup_first = warpgroup * warpgroup_rows;
  const uint32_t queries = shared + Layout::kQueries + warpgroup * tile_bytes(kDim);
  int stage = 0;
  uint32_t parity = 0;
  for (int work_idx = blockIdx.x; work_idx < num_items * heads; work_idx += gridDim.x) {
    const PrefillWork work = prefill_work(args, work_idx, num_items);
    const int first_row = work.item.first_row + warpgroup_first;
    const int num_rows = min(work.item.num_rows - warpgroup_first, warpgroup_rows);
    const int part_heads = min(args.group_heads - work.part * 8, 8);
    const int first_head = work.kv_head * args.group_heads + work.part * 8;

    named_barrier(1 + warpgroup, 128);  // no thread reads the previous queries any more
    ColumnQueries<kDim, false> staged;
    staged.plan(args, first_row, num_rows, part_heads, [&](int row) {
      return args.q + (int64_t{row} * args.num_heads + first_head) * kDim;
    });
    staged.stage(queries);
    named_barrier(1 + warpgroup, 128);

    const PrefillColumns columns(args, rows, first_row, num_rows, part_heads, first_column);
    ColumnSums<kDim> span, total;
    span.clear();
    total.clear();
    for (int tile = first_tile_of(args, work.item); tile < work.item.end_tile; ++tile) {
      const int begin = tile * kTilePositions;
      const uint32_t keys = shared + stage * Layout::kStageBytes;
      const uint32_t filled = shared + Layout::kBarriers + stage * 16;
      barrier_wait(filled, parity);
      if (begin <= columns.highest) {
        attend_columns<kDim>(args, columns, work.item, begin, queries, keys, 1 + warpgroup, span);
        if (ends_span(columns.highest, tile)) {
          span.reduce_lanes();
          merge(total, span);
          span.clear();
        }
      }
      __syncwarp();
      if (lane == 0) barrier_arrive(filled + 8);
      if (++stage == kPrefillStages) {
        stage = 0;
        parity ^= 1;
      }
    }
    store_outputs<kDim>(args, columns, first_column, first_row, first_head, total);
  }
}

template <int kDim>
__global__ void __launch_bounds__(kPrefillThreads, 1)
    attention_prefill_kernel(const __grid_constant__ AttentionArgs args) {
  using Layout = PrefillLayout<kDim>;
  const uint32_t shared = dynamic_shared_address();
  if (threadIdx.x == 0) {
    for (int i = 0; i < kPrefillStages; ++i) {
      barrier_init(shared + Layout::kBarriers + i * 16, 1);
      barrier_init(shared + Layout::kBarriers + i * 16 + 8, 8);
    }
    barrier_init_fence();
  }
  __syncthreads();
  if (threadIdx.x < 128) {
    warpgroup_reg_dealloc<24>();
    if (threadIdx.x == 0) {
      wait_for_previous_kernel();  // that kernel has appended to the cache
      copy_tiles<kDim>(args, shared, args.step->num_prompt_items);
    }
  } else {
    warpgroup_reg_alloc<240>();
    wait_for_previous_kernel();
    attend<kDim>(args, shared, args.step->num_prompt_items,
                 static_cast<int>(threadIdx.x) / 128 - 1);
  }
}

#else

// A stub below sm_90, which has no wgmma; it is never launched there.
template <int kDim>
__global__ void attention_prefill_kernel(const __grid_constant__ AttentionArgs) {}

#endif

using Kernel = void (*)(AttentionArgs);
Kernel kernel_for(int padded_dim) {
  return padded_dim == 64 ? attention_prefill_kernel<64> : attention_prefill_kernel<128>;
}
constexpr int prefill_bytes(int padded_dim) {
  return padded_dim == 64 ? PrefillLayout<64>::kBytes : PrefillLayout<128>::kBytes;
}

}  // namespace

Status prepare_attention_prefill_cuda() {
  for (const int dim : {64, 128}) {
    FORERUN_RETURN_IF_ERROR(
        allow_shared_memory(kernel_for(dim), prefill_bytes(dim), "loading the attention kernels"));
  }
  return {};
}

Status attention_prefill_cuda(const AttentionCallCuda& call, cudaStream_t stream) {
  const int dim = padded_head_dim_cuda(call.kv.head_dim);
  const AttentionArgs args = attention_args_of_rows(call);
  FORERUN_ASSIGN_OR_RETURN(const int multiprocessors, multiprocessor_count());
  return launch_dependent(kernel_for(dim), dim3(static_cast<unsigned>(multiprocessors)),
                          dim3(kPrefillThreads), static_cast<size_t>(prefill_bytes(dim)), stream,
                          "launching attention", args);
}

}  // namespace forerun::cuda
