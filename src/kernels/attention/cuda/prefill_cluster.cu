// Attention of few prompt rows: the work of attention/cuda/prefill.cu if one item per block would
// leave most SMs idle. A cluster of 2, 4 or 8 blocks takes an item of up to 64 columns (one query
// head of one row each). Its warpgroups take the item's spans in turn and merge them among
// themselves (attention/cuda/prefill_cluster_exchange.h, docs/kernels/attention.md). The variants
// with fuses_rope_append() also rotate and append (attention/cuda/prefill_cluster_append.h).
//
// The lower bound of its time is an item's tiles over the cluster's warpgroups, with products at
// the speed of wgmma. Tiles that earlier steps wrote are requested before the wait for the previous
// kernel.
#include <cuda_bf16.h>

#include "base/status_macros.h"
#include "device/cuda/cuda_error.h"
#include "kernels/attention/cuda/columns.h"
#include "kernels/attention/cuda/item_spans.h"
#include "kernels/attention/cuda/kernels.h"
#include "kernels/attention/cuda/keys.h"
#include "kernels/attention/cuda/load.h"
#include "kernels/attention/cuda/prefill_cluster_append.h"
#include "kernels/attention/cuda/prefill_cluster_exchange.h"
#include "kernels/attention/cuda/prefill_columns.h"
#include "kernels/attention/cuda/prefill_load.h"
#include "kernels/cuda/launch.h"
#include "kernels/cuda/ptx.h"

namespace forerun::cuda {
namespace {

#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900

// The cluster's item of the step, and its part of the key/value heads. The plan has no more of
// these pairs than there are clusters.
struct PrefillClusterWork {
  int item_idx, head;
};
template <class Layout>
__device__ __forceinline__ PrefillClusterWork prefill_cluster_work(const AttentionArgs& args) {
  const int cluster = static_cast<int>(blockIdx.x) / Layout::kBlocks;
  const int item_idx = args.by_heads.divide(cluster);
  return {item_idx, cluster - item_idx * args.by_heads.by};
}

// A position in a ring, for the thread that fills it or the warps that empty it.
struct RingPlace {
  int stage = 0;
  uint32_t parity = 0;

  __device__ __forceinline__ void advance() {
    if (++stage == kPrefillClusterStages) {
      stage = 0;
      parity ^= 1;
    }
  }
};

// Waits until this step's keys are in the cache, before tiles that contain some of them.
template <class Layout>
__device__ __forceinline__ void wait_for_step_keys(uint32_t shared) {
  if constexpr (Layout::kFused) {
    barrier_wait(shared + Layout::kAppendedBarrier, 0);
    fence_global_async_proxy();
  } else {
    wait_for_previous_kernel();  // that kernel has appended to the cache
  }
}

// Copies the tiles of a warpgroup's spans of the cluster's item into its ring, in order. One thread
// calls it.
template <class Layout>
__device__ __forceinline__ void copy_ring(const AttentionArgs& args, const PrefillWork& work,
                                          uint32_t shared, int warpgroup) {
  constexpr int kDim = Layout::kDim;
  const auto* const tables = step_data<int32_t>(args.step, args.step->tables_offset);
  const ItemSpans spans(work.item, args.window);
  const int stable_tiles = work.item.stable_tokens / kTilePositions;
  const int cluster_warpgroup =
      static_cast<int>(cluster_rank()) * kPrefillClusterWarpgroups + warpgroup;
  bool waited = !Layout::kFused && !args.early;
  RingPlace place;
  for (int span = spans.first + cluster_warpgroup; span < spans.end;
       span += Layout::kClusterWarpgroups) {
    for (int tile = spans.begin_tile(span); tile < spans.end_tile(span); ++tile) {
      const std::byte* const keys =
          keys_of<kDim>(args, tables[work.item.table + tile], work.kv_head);
      if (!waited && tile >= stable_tiles) {
        wait_for_step_keys<Layout>(shared);
        waited = true;
      }
      const uint32_t target = Layout::stage_at(shared, warpgroup, place.stage);
      const uint32_t filled = Layout::filled_at(shared, warpgroup, place.stage);
      barrier_wait(Layout::free_at(shared, warpgroup, place.stage), place.parity ^ 1);
      barrier_arrive_expect_tx(filled, Layout::kStageBytes);
      bulk_copy(target, keys, tile_bytes(kDim), filled);
      bulk_copy(target + tile_bytes(kDim), keys + value_offset<kDim>(args), tile_bytes(kDim),
                filled);
      place.advance();
    }
  }
}

__device__ __forceinline__ void wait_and_launch_dependents() {
  wait_for_previous_kernel();
  launch_dependents();
}

// Runs a consumer, which processes its warpgroup's spans of the cluster's item, and its share of
// the merge.
template <class Layout>
__device__ __forceinline__ void attend(const AttentionArgs& args, const PrefillWork& work,
                                       uint32_t shared) {
  constexpr int kDim = Layout::kDim;
  constexpr int kMeet = 1 + kPrefillClusterWarpgroups;  // barrier of all consumers
  const int lane = threadIdx.x % 32;
  const int warpgroup = static_cast<int>(threadIdx.x) / 128;
  const int rank = static_cast<int>(cluster_rank());
  const int cluster_warpgroup = rank * kPrefillClusterWarpgroups + warpgroup;
  const int first_column = static_cast<int>(threadIdx.x) % 128 / 32 * 16 + lane / 4;
  const uint32_t queries = shared + Layout::kQueries;
  const ItemSpans spans(work.item, args.window);
  const int first_row = work.item.first_row;
  const int part_heads = min(args.group_heads - work.part * 8, 8);
  const int first_head = work.kv_head * args.group_heads + work.part * 8;
  const PrefillColumns columns(args, step_data<AttentionRowCuda>(args.step, args.step->rows_offset),
                               first_row, work.item.num_rows, part_heads, first_column);
  ColumnQueries<kDim, Layout::kFused, kPrefillClusterConsumers> staged;
  staged.plan(args, first_row, work.item.num_rows, part_heads, [&](int row) {
    return Layout::kFused ? args.qkv + row * args.qkv_stride + first_head * kDim
                          : args.q + (int64_t{row} * args.num_heads + first_head) * kDim;
  });
  if (args.early) wait_and_launch_dependents();
  staged.stage(queries);
  named_barrier(kMeet, kPrefillClusterConsumers);

  // Warps with all 16 columns beyond the item's neither send nor merge.
  const int sent_columns = (work.item.num_rows * args.row_columns + 15) & ~15;
  const bool sends = static_cast<int>(threadIdx.x) % 128 / 32 * 16 < sent_columns;
  const bool merges = PrefillClusterShare<Layout>::column() < sent_columns;
  PrefillClusterExchange<Layout> exchange{shared, rank, sent_columns};
  RingPlace place;
  PrefillClusterShare<Layout> share;
  share.clear();
  for (int round = spans.first; round < spans.end; round += Layout::kClusterWarpgroups) {
    const int num_warpgroups = min(spans.end - round, Layout::kClusterWarpgroups);
    ColumnSums<kDim> span;
    if (cluster_warpgroup < num_warpgroups) {
      span.clear();
      for (int tile = spans.begin_tile(round + cluster_warpgroup);
           tile < spans.end_tile(round + cluster_warpgroup); ++tile) {
        barrier_wait(Layout::filled_at(shared, warpgroup, place.stage), place.parity);
        attend_columns<kDim>(args, columns, work.item, tile * kTilePositions, queries,
                             Layout::stage_at(shared, warpgroup, place.stage), 1 + warpgroup, span);
        __syncwarp();
        if (lane == 0) barrier_arrive(Layout::free_at(shared, warpgroup, place.stage));
        place.advance();
      }
      span.reduce_lanes();
    }
    if (round > spans.first) {
      exchange.wait_for_results();
      if (merges) share.merge(shared, Layout::kClusterWarpgroups);
      exchange.end_round();
    }
    exchange.begin_round(num_warpgroups);
    if (cluster_warpgroup < num_warpgroups && sends)
      exchange.send(span, cluster_warpgroup, first_column);
    exchange.end_sending();
  }
  exchange.wait_for_results();
  // There is no end_round() after the last round: a block may have ended, so no peer may arrive at
  // it.
  if (merges) share.merge(shared, (spans.end - spans.first - 1) % Layout::kClusterWarpgroups + 1);
  const int row = args.by_row_columns.divide(PrefillClusterShare<Layout>::column());
  const int head = PrefillClusterShare<Layout>::column() - row * args.row_columns;
  if (row < work.item.num_rows && head < part_heads) {
    share.store(args,
                args.attended + (first_row + row) * args.attended_stride +
                    (first_head + head) * args.head_dim,
                rank);
  }
}

template <class Layout>
__global__ void __launch_bounds__(kPrefillClusterThreads, 1)
    attention_prefill_cluster_kernel(const __grid_constant__ AttentionArgs args) {
  const uint32_t shared = dynamic_shared_address();
  if (!args.early) wait_and_launch_dependents();
  const int num_items = args.step->num_prompt_items;
  const auto [item_idx, head] = prefill_cluster_work<Layout>(args);
  // Loaded while the blocks of the cluster meet.
  const PrefillWork work(args, min(item_idx, num_items - 1), head);
  init_prefill_cluster_barriers<Layout>(shared);
  if (item_idx >= num_items) {
    wait_for_previous_kernel();  // a kernel that waits for this one waits for that one too
    return;
  }
  if (threadIdx.x < kPrefillClusterConsumers) {
    warpgroup_reg_alloc<216>();
    attend<Layout>(args, work, shared);
  } else {
    warpgroup_reg_dealloc<64>();
    const int warp = static_cast<int>(threadIdx.x - kPrefillClusterConsumers) / 32;
    if (warp < kPrefillClusterWarpgroups) {
      if (threadIdx.x % 32 == 0) copy_ring<Layout>(args, work, shared, warp);
    } else if constexpr (Layout::kFused) {
      append<Layout>(args, work, item_idx, shared);
    }
  }
}

#else

// A stub below sm_90, which has no clusters; it is never launched there.
template <class Layout>
__global__ void attention_prefill_cluster_kernel(const __grid_constant__ AttentionArgs) {}

#endif

struct Variant {
  void (*kernel)(AttentionArgs);
  int shared_bytes;
};
template <int kDim, int kBlocks, bool kFused>
Variant variant() {
  using Layout = PrefillClusterLayout<kDim, kBlocks, kFused>;
  return {attention_prefill_cluster_kernel<Layout>, Layout::kBytes};
}
template <bool kFused>
Variant variant_for(int padded_dim, int blocks) {
  if (padded_dim == 64) return blocks == 4 ? variant<64, 4, kFused>() : variant<64, 2, kFused>();
  if (blocks == 8) return variant<128, 8, kFused>();
  return blocks == 4 ? variant<128, 4, kFused>() : variant<128, 2, kFused>();
}
Variant variant_for(int padded_dim, int blocks, bool fused) {
  return fused ? variant_for<true>(padded_dim, blocks) : variant_for<false>(padded_dim, blocks);
}

}  // namespace

Status prepare_attention_prefill_cluster_cuda() {
  for (const int dim : {64, 128}) {
    for (int blocks = 2; blocks <= largest_prefill_cluster(dim); blocks *= 2) {
      for (const bool fused : {false, true}) {
        const Variant variant = variant_for(dim, blocks, fused);
        FORERUN_RETURN_IF_ERROR(allow_shared_memory(variant.kernel, variant.shared_bytes,
                                                    "loading the attention kernels"));
      }
    }
  }
  return {};
}

Status attention_prefill_cluster_cuda(const AttentionCallCuda& call, cudaStream_t stream) {
  const int blocks = prefill_cluster_blocks(call.kernel);
  const Variant variant = variant_for(padded_head_dim_cuda(call.kv.head_dim), blocks,
                                      is_fused_prefill_cluster(call.kernel));
  return launch_dependent_clusters(
      variant.kernel, blocks, dim3(static_cast<unsigned>(max_prefill_clusters(blocks) * blocks)),
      dim3(kPrefillClusterThreads), static_cast<size_t>(variant.shared_bytes), stream,
      "launching attention", attention_args_of_rows(call));
}

}  // namespace forerun::cuda
