// Attention of few rows over short contexts: a cluster of 8 blocks takes all spans of a few rows of
// one key/value head and merges them among themselves (docs/kernels/attention.md, kDecodeCluster).
//
// Trips to the L2 determine the time. So the plan's data and the prefix tiles are requested before
// the wait for the previous kernel. Then come queries and the step's own keys (one trip), the
// products, the results to the other blocks' shared memory (each block merges an eighth of the
// dimensions of every column), and the outputs.
//  - a warpgroup takes a span at a time, with columns (one query head of one row each) as the
//    64-row operand of wgmma: keys and values are read from shared memory once, whatever the number
//    of rows (attention/cuda/decode_cluster_span.h);
//  - the tile in which rows differ is scored likewise, with all keys that any row sees there; then
//    one warp attends to the keys that its row sees (attention/cuda/decode_cluster_tail.h);
//  - results are received where keys and queries were: a warp announces that it reads them no more,
//    and sends once all warps have announced it (attention/cuda/decode_cluster_exchange.h).
#include <cuda_bf16.h>

#include <algorithm>
#include <utility>

#include "base/status_macros.h"
#include "device/cuda/cuda_error.h"
#include "kernels/attention/cuda/decode_cluster_args.h"
#include "kernels/attention/cuda/decode_cluster_exchange.h"
#include "kernels/attention/cuda/decode_cluster_span.h"
#include "kernels/attention/cuda/decode_cluster_stage.h"
#include "kernels/attention/cuda/decode_cluster_tail.h"
#include "kernels/attention/cuda/kernels.h"
#include "kernels/cuda/launch.h"
#include "kernels/cuda/ptx.h"

namespace forerun::cuda {
namespace {

#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900

// Registers per thread: 144 leave room for a linear layer's block of 112 registers per thread
// beside it; with two blocks per SM only 128 fit.
constexpr int decode_cluster_registers(bool two_per_sm) { return two_per_sm ? 128 : 144; }

// The merge of the thread's share of the block's eighth: two dimensions of one column, over all
// spans.
template <class Layout>
struct MergeShare {
  DecodeClusterColumn<Layout> own_column;
  int first_span, end_span;
  uint16_t* out;

  __device__ __forceinline__ MergeShare(const DecodeClusterArgs& args,
                                        const DecodeClusterTileInfo<Layout>& tile_info, int rank,
                                        int share)
      : own_column(args, share) {
    const int pair = own_column.pair();
    first_span = tile_info.field(kFirstSpan);
    end_span = num_spans(tile_info.last_visible(own_column.row));
    const int dim =
        Layout::kDim == 128 ? rank * 16 + pair % 2 * 8 + pair / 2 * 2 : rank * 8 + pair * 2;
    out = args.attended + (tile_info.field(kFirstRow) + own_column.row) * args.attended_stride +
          (tile_info.field(kFirstHead) + own_column.head) * Layout::kDim + dim;
  }
  __device__ __forceinline__ void merge_and_store(const DecodeClusterArgs& args,
                                                  uint32_t shared) const {
    const float2 v =
        merge_received<Layout>(shared, own_column.column, own_column.pair(), first_span, end_span);
    *reinterpret_cast<uint32_t*>(out) = pack_activations(args.attended_format, v.x, v.y);
  }
};

template <class Layout, bool kTwoPerSm>
__global__ void __maxnreg__(decode_cluster_registers(kTwoPerSm))
    attention_decode_cluster_kernel(const __grid_constant__ DecodeClusterArgs args) {
  const uint32_t shared = dynamic_shared_address();
  const DecodeClusterThread thread;
  DecodeClusterBarriers<Layout> barriers{shared};
  barriers.init();
  if (!args.early) wait_for_previous_kernel();
  const int count = args.step->num_items * args.by_heads.by;
  bool waited = !args.early;

  for (int index = static_cast<int>(blockIdx.x) / kDecodeClusterBlocks; index < count;
       index += static_cast<int>(gridDim.x) / kDecodeClusterBlocks) {
    // Before the previous kernel's end the block requests the prefix, and finds the data that each
    // thread will load.
    const DecodeClusterWork work(args, index, thread);
    request_first_tile<Layout>(args, work, barriers, thread.warpgroup);
    if (threadIdx.x == 64) barriers.expect_results(work.merged_columns());
    const TileInfoRows<Layout> rows(args, work.item);
    DecodeClusterStaging<Layout> staging;
    staging.plan(args, work, shared);
    copies_commit();
    store_tile_rows<Layout>(args, work, rows, shared);
    store_tile_info<Layout>(work, shared);
    copies_wait();
    __syncthreads();  // angles are there

    if (!waited) wait_for_previous_kernel();
    if (barriers.received == 0) launch_dependents();
    waited = true;
    staging.load_and_rotate(shared);

    // Computes addresses again here: if they were kept since before the loop, they would be
    // spilled.
    const DecodeClusterTileInfo<Layout> tile_info{opaque(shared)};
    if (tile_info.field(kTailWarps) > 0 && tile_info.field(kTailWarpgroup) == thread.warpgroup) {
      score_tail<Layout>(args, tile_info, barriers, thread);
    }
    staging.extra.append(args, tile_info.field(kKvHead), tile_info.shared);
    if (work.task.has_span) {
      // This loop is in the kernel itself, because as a function it makes the compiler spill.
      SpanColumns<Layout> columns(args, tile_info, thread);
      for (int tile = work.task.begin_tile; tile < work.task.end_tile; ++tile) {
        barriers.wait_for_tile(thread.warpgroup);
        float score[8][4];
        columns.score(tile_info, score);
        if (tile + 1 == work.task.end_tile) barriers.release_keys(thread.lane);
        uint32_t probs[4][4] = {};
        columns.exponentiate_tile(args, tile_info, tile, tile > work.task.begin_tile, thread.lane,
                                  score, probs);
        columns.add_values(probs);
        request_next_tile<Layout>(args, work, tile + 1, barriers, thread.warpgroup);
      }
      columns.send_results(args, tile_info, barriers, thread);
    } else {
      barriers.release_keys(thread.lane);
    }
    attend_tail<Layout>(args, tile_info, barriers, thread);

    MergeShare<Layout> merge_share(args, tile_info, thread.rank, 0);
    barriers.wait_for_released_keys();  // no arrival comes after this block's end
    barriers.wait_for_results();
    for (uint32_t shares = staging.shares;; shares >>= 1) {
      if ((shares & 1) != 0) merge_share.merge_and_store(args, tile_info.shared);
      if (staging.kShares == 1 || shares <= 1) break;
      merge_share = MergeShare<Layout>(args, tile_info, thread.rank, 1);
    }
    barriers.count_tiles(static_cast<uint32_t>(tile_info.field(kTailHasPrefix)),
                         tile_info.field(kTailWarpgroup) == thread.warpgroup,
                         work.task.other_tiles);
    __syncthreads();  // no thread reads received results and queries any more
  }
  if (!waited) wait_for_previous_kernel();
}

#else

// A stub below sm_90, which has no clusters; it is never launched there.
template <class Layout, bool kTwoPerSm>
__global__ void attention_decode_cluster_kernel(const __grid_constant__ DecodeClusterArgs) {}

#endif

struct Variant {
  void (*kernel)(DecodeClusterArgs);
  int shared_bytes;
};
// `two_per_sm` means two blocks per SM, as for all `wide` items.
template <int kDim>
Variant variant_for(bool wide, bool two_per_sm) {
  using Narrow = DecodeClusterLayout<kDim, kNarrowDecodeClusterColumns>;
  using Wide = DecodeClusterLayout<kDim, kWideDecodeClusterColumns>;
  if (wide) return {attention_decode_cluster_kernel<Wide, true>, Wide::kBytes};
  return {two_per_sm ? attention_decode_cluster_kernel<Narrow, true>
                     : attention_decode_cluster_kernel<Narrow, false>,
          Narrow::kBytes};
}
Variant variant_for(int dim, bool wide, bool two_per_sm) {
  return dim == 64 ? variant_for<64>(wide, two_per_sm) : variant_for<128>(wide, two_per_sm);
}

}  // namespace

Status prepare_attention_decode_cluster_cuda() {
  for (const int dim : {64, 128}) {
    for (const auto& [wide, two_per_sm] : {std::pair(false, false), {false, true}, {true, true}}) {
      const Variant variant = variant_for(dim, wide, two_per_sm);
      FORERUN_RETURN_IF_ERROR(allow_shared_memory(variant.kernel, variant.shared_bytes,
                                                  "loading the attention kernels"));
    }
  }
  return {};
}

Status attention_decode_cluster_cuda(const AttentionCallCuda& call, cudaStream_t stream) {
  const PagedKvCuda& kv = call.kv;
  const auto args = attention_args<DecodeClusterArgs>(call);
  // The number of clusters is that of the plan's items if all rows belong to one sequence; further
  // items are taken in turn.
  const bool wide = call.kernel == AttentionKernel::kWideDecodeCluster;
  const int query_tile_rows = decode_cluster_rows(args.row_columns, wide);
  const int items =
      (call.rows + query_tile_rows - 1) / query_tile_rows * args.kv_heads * args.parts;
  const bool two_per_sm = wide || items > kResidentClusters;
  const int clusters = wide         ? kMaxDecodeClusters
                       : two_per_sm ? std::min(items, kMaxDecodeClusters)
                                    : kResidentClusters;
  const Variant variant = variant_for(kv.head_dim, wide, two_per_sm);
  return launch_dependent_clusters(
      variant.kernel, kDecodeClusterBlocks,
      dim3(static_cast<unsigned>(clusters * kDecodeClusterBlocks)), dim3(kDecodeClusterThreads),
      static_cast<size_t>(variant.shared_bytes), stream, "launching attention", args);
}

}  // namespace forerun::cuda
