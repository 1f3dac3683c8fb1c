// Attention with one warp per row. A warp takes one row and the up to 8 query heads of one
// key/value head: keys are the 16-row operand of mma.m16n8k16, the heads its 8 columns, so the
// instruction's shape is the same for any number of rows. Tiles of 64 keys and values below the
// rows' boundary are copied whole into shared memory, for all rows of a query tile; each row
// gathers its tree positions itself, 16 at a time, in the order of its own ancestors.
//
// The lower bound of its time is the cache's bytes over the memory's bandwidth for long contexts;
// for short ones it is the chain queries -> scores -> partial result -> flag -> merge, each a trip
// through the L2.
//  - one block per SM, each with about half of its shared memory: the next linear layer finds one
//    place free on every SM (linear/cuda/linear.cu), and every block is resident, so that blocks
//    may wait for one another;
//  - the cache's tiles are requested before the previous kernel's end is awaited;
//  - for few rows (kSplitKvFusedRope) the kernel rotates queries and keys itself, from the linear
//    layer's output, and writes the step's keys and values to the cache: one kernel less in the
//    chain;
//  - partial results go through the L2 in the order in which the lanes hold them, and every block
//    merges a share of them once the blocks that it needs have arrived (SwiftSpec's combination in
//    the same launch).
#include <cuda_bf16.h>

#include <algorithm>

#include "base/status_macros.h"
#include "device/cuda/cuda_error.h"
#include "kernels/attention/cuda/args.h"
#include "kernels/attention/cuda/item.h"
#include "kernels/attention/cuda/kernels.h"
#include "kernels/attention/cuda/keys.h"
#include "kernels/attention/cuda/merge.h"
#include "kernels/attention/cuda/row.h"
#include "kernels/cuda/launch.h"
#include "kernels/cuda/ptx.h"

namespace forerun::cuda {
namespace {

#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900

// Registers per thread: beside this kernel's block an SM has room for one of a linear layer
// (linear/cuda/linear.cu). Many rows do not need that.
constexpr int registers(int dim, AttentionKernel kernel) {
  return kernel == AttentionKernel::kUnsplitKv || dim > 128 ? 255 : 144;
}

template <int kDim, AttentionKernel kKernel>
__global__ void __maxnreg__(registers(kDim, kKernel))
    attention_kernel(const __grid_constant__ AttentionArgs args) {
  constexpr bool kUnsplitKv = kKernel == AttentionKernel::kUnsplitKv;
  constexpr bool kFused = kKernel == AttentionKernel::kSplitKvFusedRope;
  const uint32_t base = dynamic_shared_address();
  const uint32_t data = base + kAttentionBarrierBytes;
  const int lane = threadIdx.x % 32;
  const int warp = threadIdx.x / 32;
  const uint32_t own = data + args.stages * 2 * tile_bytes(kDim);
  const int heads = args.kv_heads * args.parts;
  if (threadIdx.x == 0) {
    for (int i = 0; i < args.stages; ++i) barrier_init(base + i * 8, 1);
    barrier_init_fence();
  }

  TileLoader<kDim, kFused> tiles(args, data, base);
  if (!args.early) wait_for_previous_kernel();
  const int num_items = args.step->num_items;
  tiles.begin(num_items * heads);
  if (threadIdx.x == 0 && args.early) tiles.fill(/*stable_only=*/true);
  if (args.early) wait_for_previous_kernel();
  launch_dependents();
  if (threadIdx.x == 0) tiles.fill(/*stable_only=*/false);
  for (int i = blockIdx.x * kThreads + threadIdx.x; i < args.step->num_query_tiles * heads;
       i += gridDim.x * kThreads) {
    args.to_clear[i] = 0;
  }
  __syncthreads();  // barriers are initialized

  for (int work_idx = blockIdx.x; work_idx < num_items * heads; work_idx += gridDim.x) {
    const AttentionItemCuda item =
        step_data<AttentionItemCuda>(args.step, args.step->items_offset)[work_idx / heads];
    const int head = work_idx % heads;
    [[maybe_unused]] RowSum<kDim> total;
    [[maybe_unused]] bool started = false;
    attend_item<kDim, kFused>(args, item, head, own, own + 2 * kMaxExtras * kDim * 2, tiles,
                              [&](const RowTask<kDim>& task, int tile, const RowSum<kDim>& span) {
                                if constexpr (!kUnsplitKv) {
                                  const int partial =
                                      task.row.first_partial + span_of(task.row.last_visible, tile);
                                  store_partial<kDim>(args, span, partial, head, lane);
                                } else if (started) {
                                  merge<kDim>(total, span);
                                } else {
                                  total = span;
                                  started = true;
                                }
                              });
    if constexpr (kUnsplitKv) {
      if (warp < item.num_rows) {
#pragma unroll
        for (int m = 0; m < kDim / 16; ++m) {
          store_attended(args, item.first_row + warp, head, m * 16, total.out[m], total.exp_sum,
                         lane);
        }
      }
    } else {
      __syncthreads();  // every warp's partial results are written
      if (threadIdx.x == 0) arrive_release(args.arrivals + item.query_tile * heads + head, 1);
    }
  }
  // The block has finished its items, so its shared memory is free. If units are few, they go to as
  // many SMs as possible; otherwise blocks without units leave their room to the next layer.
  if constexpr (!kUnsplitKv) {
    merge_share<kDim>(args, data, shared_bytes(kDim, kFused, args.stages) - kAttentionBarrierBytes,
                      /*everywhere=*/false);
  }
}

#else

// A stub below sm_90, which has neither bulk copies nor dependent launch; it is never launched
// there.
template <int kDim, AttentionKernel kKernel>
__global__ void attention_kernel(const __grid_constant__ AttentionArgs) {}

#endif

constexpr int kSharedLimit = 227 * 1024;  // maximal bytes per block on sm_90

using Kernel = void (*)(AttentionArgs);

template <AttentionKernel kKernel>
Kernel kernel_for(int padded_dim) {
  if constexpr (kKernel == AttentionKernel::kSplitKvFusedRope) {
    return padded_dim == 64 ? attention_kernel<64, kKernel> : attention_kernel<128, kKernel>;
  } else {
    return padded_dim == 64    ? attention_kernel<64, kKernel>
           : padded_dim == 128 ? attention_kernel<128, kKernel>
                               : attention_kernel<256, kKernel>;
  }
}

Kernel kernel_for(int padded_dim, AttentionKernel kernel) {
  return kernel == AttentionKernel::kUnsplitKv ? kernel_for<AttentionKernel::kUnsplitKv>(padded_dim)
         : kernel == AttentionKernel::kSplitKv
             ? kernel_for<AttentionKernel::kSplitKv>(padded_dim)
             : kernel_for<AttentionKernel::kSplitKvFusedRope>(padded_dim);
}

}  // namespace

Status prepare_attention_rows_cuda() {
  for (const AttentionKernel kernel : {AttentionKernel::kUnsplitKv, AttentionKernel::kSplitKv,
                                       AttentionKernel::kSplitKvFusedRope}) {
    for (const int dim : {64, 128, 256}) {
      const bool fused = kernel == AttentionKernel::kSplitKvFusedRope;
      if (fused && !can_fuse_rope(dim, false)) continue;
      FORERUN_RETURN_IF_ERROR(allow_shared_memory(
          kernel_for(dim, kernel), shared_bytes(dim, fused, stages_for(dim, fused, kSharedLimit)),
          "loading the attention kernels"));
    }
  }
  return {};
}

Status attention_rows_cuda(const AttentionCallCuda& call, cudaStream_t stream) {
  const int dim = padded_head_dim_cuda(call.kv.head_dim);
  const bool fused = call.kernel == AttentionKernel::kSplitKvFusedRope;
  AttentionArgs args = attention_args_of_rows(call);
  args.stages = stages_for(dim, fused, kSharedLimit);
  FORERUN_ASSIGN_OR_RETURN(const int multiprocessors, multiprocessor_count());
  return launch_dependent(kernel_for(dim, call.kernel),
                          dim3(static_cast<unsigned>(multiprocessors)), dim3(kThreads),
                          static_cast<size_t>(shared_bytes(dim, fused, args.stages)), stream,
                          "launching attention", args);
}

}  // namespace forerun::cuda
