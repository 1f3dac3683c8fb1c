// Attention of few rows over long prefixes that they share. A span that all rows of some query
// tiles share passes through shared memory once for up to 128 columns (one query head of one row
// each), 64 per warpgroup. One warp per row takes the last spans, in which rows differ
// (attention/cuda/item.h). Partial results pass through the L2, and every block merges a share of
// them (attention/cuda/merge.h).
//
// The lower bound of its time is the cache's bytes over the memory's bandwidth.
//  - one launch, with half of an SM per block: its first tiles are requested while the layer before
//    it runs, and the next layer's weights while it merges;
//  - a loading warp keeps a ring of keys and values full, across items;
//  - up to 64 columns: one warpgroup computes probabilities from keys, the other adds values, a
//    tile behind (attention/cuda/shared_narrow.h), in so few registers that two blocks fit into an
//    SM;
//  - more columns: each warpgroup has its own, whose probabilities stay in registers between the
//    two products; the warpgroups take narrow items in turn, so that the last products and stores
//    of one hide behind the tiles of the other.
#include <cuda_bf16.h>

#include "base/status_macros.h"
#include "device/cuda/cuda_error.h"
#include "kernels/attention/cuda/columns.h"
#include "kernels/attention/cuda/item.h"
#include "kernels/attention/cuda/kernels.h"
#include "kernels/attention/cuda/merge.h"
#include "kernels/attention/cuda/shared_load.h"
#include "kernels/attention/cuda/shared_narrow.h"
#include "kernels/attention/cuda/shared_prefix.h"
#include "kernels/cuda/launch.h"
#include "kernels/cuda/ptx.h"

namespace forerun::cuda {
namespace {

#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900

// Processes the block's prefix items if some have more than 64 columns: each warpgroup takes half
// of such an item, and every second of the other items. Waits for the previous kernel before it
// reads queries, or at the end. Leaves the ring at the position where the items end.
template <int kDim, bool kFused>
__device__ __forceinline__ void attend_wide_prefixes(const AttentionArgs& args, uint32_t shared,
                                                     SharedRing<kDim>& ring) {
  const int lane = threadIdx.x % 32;
  const int warpgroup = threadIdx.x / 128;
  const int warpgroup_rows = args.by_row_columns.divide(64);
  const uint32_t queries = shared + SharedLayout<kDim>::kQueries + warpgroup * tile_bytes(kDim);
  int narrow = 0;
  bool waited = !args.early;
  for (int index = 0;; ++index) {
    const PrefixWork work = take_work<kDim>(shared, index);
    if (work.num_rows == 0) break;
    const bool wide = work.num_rows > warpgroup_rows;
    const bool is_own = wide || narrow % 2 == warpgroup;
    narrow += wide ? 0 : 1;
    if (!is_own) {
      ring.half_tile += 2 * work.tiles;
      continue;
    }
    const int skipped = wide ? warpgroup * warpgroup_rows : 0;  // rows of the other warpgroup
    const int num_rows = min(work.num_rows - skipped, warpgroup_rows);
    const PrefixColumns columns(args, work, skipped, num_rows);
    stage_prefix_queries<kDim, kFused>(args, work, skipped, num_rows, queries, waited);

    const int arrivals = wide ? 1 : 2;
    ColumnSums<kDim> sums;
    sums.clear();
    for (int tile = 0; tile < work.tiles; ++tile) {
      float score[8][4];
      score_tile<kDim>(score, queries, kPanelBytes, ring.wait(ring.half_tile));
      ring.release(ring.half_tile, arrivals);
      scale_scores(score, args.scale_log2);
      columns.hide(args, score, work.first_tile + tile, lane);
      uint32_t probs[4][4];
      exponentiate<kDim>(score, sums, probs);
      add_tile<kDim>(sums, probs, ring.wait(ring.half_tile + 1));
      ring.release(ring.half_tile + 1, arrivals);
      ring.half_tile += 2;
    }
    sums.reduce_lanes();
    if (work.tiles > 0) {
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        if (!columns.is_there[i]) continue;
        const int partial = columns.partial(work, i);
        store_partial_values<kDim>(args, sums.out, i, partial, work.head, columns.own_head[i],
                                   lane);
        store_partial_softmax<kDim>(args, sums, i, partial, work.head, columns.own_head[i], lane);
      }
    }
    announce_prefix(args, work, arrivals);
  }
  if (!waited) wait_for_previous_kernel();
}

// Registers allow a block to fit beside one of a linear layer of 8 warps or, if narrow, of 16.
template <int kDim, bool kFused, bool kWide>
__global__ void __maxnreg__(kWide ? 128 : 112)
    attention_shared_kernel(const __grid_constant__ AttentionArgs args) {
  using Layout = SharedLayout<kDim>;
  const uint32_t shared = dynamic_shared_address();
  SharedRing<kDim> ring = {shared};
  if (threadIdx.x == 0) {
    ring.init();
    for (int i = 0; i < Layout::kWorkSlots; ++i) {
      barrier_init(work_barrier<kDim>(shared, i), 32);
      barrier_init(work_barrier<kDim>(shared, i) + 8, kThreads);
    }
    for (int i = 0; i < 2 * Layout::kProbSlots; ++i) {
      barrier_init(shared + Layout::kProbBarriers + i * 8, 128);
    }
    barrier_init_fence();
  }
  __syncthreads();
  if (!args.early) wait_for_previous_kernel();
  if (threadIdx.x >= kThreads) {
    produce_tiles<kDim, kFused, kWide>(args, shared);
    return;
  }
  if constexpr (kWide) {
    attend_wide_prefixes<kDim, kFused>(args, shared, ring);
  } else if (threadIdx.x < 128) {
    exponentiate_prefixes<kDim, kFused>(args, shared, ring);
  } else {
    add_prefixes<kDim>(args, shared, ring);
  }
  launch_dependents();
  const int heads = args.kv_heads * args.parts;
  for (int i = blockIdx.x * kThreads + threadIdx.x; i < args.step->num_query_tiles * heads;
       i += gridDim.x * kThreads) {
    args.to_clear[i] = 0;
  }
  const int count = args.step->num_items * heads;
  int work = static_cast<int>(gridDim.x - 1 - blockIdx.x);
  if (work < count) meet();  // no thread reads queries any more
  for (; work < count; work += gridDim.x) {
    const AttentionItemCuda item =
        step_data<AttentionItemCuda>(args.step, args.step->items_offset)[work / heads];
    const int head = work % heads;
    attend_item<kDim, kFused>(
        args, item, head, shared + Layout::kQueries, shared + Layout::kLists, ring,
        [&](const RowTask<kDim>& task, int tile, const RowSum<kDim>& span) {
          const int partial = task.row.first_partial + span_of(task.row.last_visible, tile);
          store_partial<kDim>(args, span, partial, head, threadIdx.x % 32);
        });
    meet();  // every warp's partial results are written
    if (threadIdx.x == 0) arrive_release(args.arrivals + item.query_tile * heads + head, 1);
  }
  merge_share<kDim>(args, shared, Layout::kBarriers, /*everywhere=*/true);
}

#else

// A stub below sm_90, which has no wgmma; it is never launched there.
template <int kDim, bool kFused, bool kWide>
__global__ void attention_shared_kernel(const __grid_constant__ AttentionArgs) {}

#endif

using Kernel = void (*)(AttentionArgs);
template <int kDim, bool kWide>
Kernel kernel_for(bool fused) {
  return fused ? attention_shared_kernel<kDim, true, kWide>
               : attention_shared_kernel<kDim, false, kWide>;
}
// Returns the kernel. Heads of 64 dimensions always take the wide one: the memory brings their
// tiles faster than one warpgroup computes probabilities from them.
Kernel kernel_for(int padded_dim, bool fused, bool wide) {
  return padded_dim == 64 ? kernel_for<64, true>(fused)
         : wide           ? kernel_for<128, true>(fused)
                          : kernel_for<128, false>(fused);
}
constexpr int block_bytes(int padded_dim) {
  return padded_dim == 64 ? SharedLayout<64>::kBytes : SharedLayout<128>::kBytes;
}

}  // namespace

Status prepare_attention_shared_cuda() {
  for (const int dim : {64, 128}) {
    for (const bool fused : {false, true}) {
      for (const bool wide : {false, true}) {
        FORERUN_RETURN_IF_ERROR(allow_shared_memory(kernel_for(dim, fused, wide), block_bytes(dim),
                                                    "loading the attention kernels"));
      }
    }
  }
  return {};
}

Status attention_shared_cuda(const AttentionCallCuda& call, cudaStream_t stream) {
  const int dim = padded_head_dim_cuda(call.kv.head_dim);
  const bool fused = call.kernel == AttentionKernel::kSplitKvFusedRope;
  AttentionArgs args = attention_args_of_rows(call);
  args.early = call.early && fused;  // otherwise the previous kernel has appended to the cache
  FORERUN_ASSIGN_OR_RETURN(const int multiprocessors, multiprocessor_count());
  const bool wide = call.shared_prefix == SharedPrefix::kWide;
  return launch_dependent(kernel_for(dim, fused, wide),
                          dim3(static_cast<unsigned>(multiprocessors)), dim3(kSharedThreads),
                          static_cast<size_t>(block_bytes(dim)), stream, "launching attention",
                          args);
}

}  // namespace forerun::cuda
