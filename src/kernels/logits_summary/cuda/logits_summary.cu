// One cluster of blocks per row. Each thread loads its share of the row into shared memory. Blocks
// exchange results by stores into each other's shared memory and meet at most three times:
//
//   1. Find the best token, errors, and each thread's best token. Meet: the row's best token is
//      known.
//   2. Sum weights. Find the largest score + noise: an upper bound needs no logarithm, and only
//      tokens whose bound reaches the largest sum so far take logarithms in f32. Make a histogram
//      of the threads' best tokens, in steps of 1/8 below the row's best (kNoisyTop: steps of 1/2
//      below the largest possible sum). Meet: the depth of the list and the largest sum are known.
//   3. Threads whose best token is within that depth list their tokens in the first block.
//
// If the query has edits, the row is first edited in shared memory
// (logits_summary/cuda/row_edits.h): each block finds its tokens in the lists of edits and the bits
// of its tokens in the mask.
//
// The histogram counts threads, not tokens, which costs one atomic per thread: if as many threads
// as wanted tokens have a token down to some depth, there are at least that many tokens. The list
// is longer than requested by the tokens that share a thread or the last bucket (about a tenth for
// 256 of 128,256 tokens).
#include <cooperative_groups.h>

#include <string>
#include <utility>

#include "kernels/cuda/launch.h"
#include "kernels/logits_summary/cuda/passes.h"

namespace forerun::cuda {
namespace {

using namespace logits_summary;

__global__ void __launch_bounds__(kThreads)
    logits_summary_kernel(const __grid_constant__ Arguments arguments) {
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900
  const LogitsSummaryCallCuda& call = arguments.call;
  extern __shared__ __align__(16) float logits[];
  __shared__ Shared shared;
  __shared__ RowQuery query;
  launch_dependents();
  cluster_arrive_relaxed();
  for (int i = static_cast<int>(threadIdx.x); i < kBuckets; i += kThreads) shared.histogram[i] = 0;
  if (threadIdx.x == 0) {
    shared.num_listed = 0;
    shared.num_candidates = 0;
  }
  wait_for_previous_kernel();
  const int row = static_cast<int>(blockIdx.x) / kBlocks;
  if (row >= *reinterpret_cast<const int32_t*>(call.step + call.count_offset)) return;
  if (threadIdx.x == 0) {
    const int32_t offset = *reinterpret_cast<const int32_t*>(call.step + call.offset_offset);
    query = reinterpret_cast<const RowQuery*>(call.step + offset)[row];
    if (query.edits != RowQuery::kNone && (query.kinds & RowQuery::kLogits) == 0) {
      const int32_t edits = *reinterpret_cast<const int32_t*>(call.step + call.edits_offset_offset);
      shared.edits = reinterpret_cast<const RowEditsCuda*>(call.step + edits)[query.edits];
    }
  }
  __syncthreads();
  if ((query.kinds & RowQuery::kLogits) != 0) return;
  RowPasses passes(arguments, query, row, logits, shared);
  passes.find_best();
  passes.meet_peers(row);
  const bool first = blockIdx.x % kBlocks == 0;
  const bool summed = !passes.done();
  if (summed) {
    passes.sum();
    if (query.top > 0) {
      passes.list();
      __syncwarp();
      // No block reads the shared memory of any block but the first any more, so only the first
      // block waits.
      auto arrived = cooperative_groups::this_cluster().barrier_arrive();
      if (first) cooperative_groups::this_cluster().barrier_wait(std::move(arrived));
    }
  }
  if (first) passes.write(summed, call.summaries + row);
#endif
}

}  // namespace

Status prepare_logits_summary_cuda() {
  return allow_shared_memory(logits_summary_kernel, kMaxQuads * kQuadBytes,
                             "loading the summary of logits");
}

PeerGroupOptions row_maxima_group(int64_t max_rows) {
  // A row needs a word per block; a group has one word per 8 columns of a row.
  return {.max_rows = max_rows, .width = 8 * kBlocks};
}

Status logits_summary_cuda(const LogitsSummaryCallCuda& call, cudaStream_t stream) {
  constexpr int kTokens = 4 * kThreads * kBlocks;  // tokens of one quad per thread
  const int num_quads = (call.tokens + kTokens - 1) / kTokens;
  static_assert(int64_t{kMaxQuads} * kTokens == kMaxLogitsSummaryTokens);
  if (num_quads > kMaxQuads) {
    return {StatusCode::kUnsupported,
            "vocabulary on one GPU: found " + std::to_string(call.tokens) +
                " tokens; accepted: at most " + std::to_string(kMaxLogitsSummaryTokens)};
  }
  Arguments arguments = {.call = call, .peers = {}, .num_quads = num_quads};
  if (call.peers != nullptr) {
    if (call.peers->slot_words < int64_t{call.rows} * kBlocks) {
      return {StatusCode::kInvalidArgument, "more rows than their mailboxes hold"};
    }
    arguments.peers = *call.peers;
  }
  return launch_dependent_clusters(logits_summary_kernel, kBlocks,
                                   dim3(static_cast<unsigned>(call.rows * kBlocks)), dim3(kThreads),
                                   static_cast<size_t>(num_quads * kQuadBytes), stream,
                                   "launching the summary of logits", arguments);
}

}  // namespace forerun::cuda
