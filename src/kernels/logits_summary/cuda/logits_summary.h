// Summaries of rows of logits that lie on a GPU (kernels/logits_summary/logits_summary.h).
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "device/cuda/peer_group.h"
#include "forerun/status.h"
#include "kernels/logits_summary/logits_summary.h"
#include "kernels/logits_summary/row_edits.h"

namespace forerun::cuda {

// The RowEdits of a row in the kernel's format. The lists lie in the Step's data at byte offsets
// that are multiples of 8.
struct alignas(16) RowEditsCuda {
  Penalties penalties;
  int32_t num_biases = 0;
  int32_t biases_offset = 0;  // [num_biases] TokenBias
  int32_t num_history = 0;
  int32_t history_offset = 0;  // [num_history] TokenCount
  int32_t num_path = 0;        // at most RowEdits::kMaxPath
  int32_t path_offset = 0;     // [num_path] TokenCount
  int32_t unused = 0;
  // mask_words_cuda() words for the whole vocabulary, 16-byte aligned, on the device or in mapped
  // host memory; null if all tokens are allowed.
  const uint32_t* mask = nullptr;
};

// Returns the number of 32-bit words of a mask for `vocab` tokens.
constexpr int64_t mask_words_cuda(int64_t vocab) { return (vocab + 127) / 128 * 4; }

struct LogitsSummaryCallCuda {
  const float* logits = nullptr;  // [rows][stride]; 16-byte aligned, as is the stride in bytes
  int64_t stride = 0;             // at least `tokens` rounded up to a multiple of 4
  int32_t tokens = 0;
  int32_t first_token = 0;  // token of column 0, a multiple of 4
  // The Step's data on the device. It holds three int32: at `offset_offset` the offset of [count]
  // RowQuery (16-byte aligned); at `count_offset` the number of rows, at most `rows`; at
  // `edits_offset_offset` the offset of the RowEditsCuda that the queries refer to.
  const std::byte* step = nullptr;
  int32_t offset_offset = 0;
  int32_t edits_offset_offset = 0;
  int32_t count_offset = 0;
  LogitsSummary* summaries =
      nullptr;  // [rows], mapped host memory; rows with kLogits are not written
  int32_t rows = 0;
  // If other GPUs hold other parts of the rows and submit the same call: mailbox 0 of a group made
  // with row_maxima_group(), through which the GPUs exchange the rows' largest logits, for queries
  // that ask for weights. Between two calls all of these GPUs must exchange words of this group, or
  // the host must wait. If null, the origin of weights is the part's largest logit.
  const PeerMailboxes* peers = nullptr;
  uint32_t senders = 0;  // bit r is set if rank r takes part
};

// The largest number of tokens of a part: they must fit in the shared memory of a cluster.
inline constexpr int64_t kMaxLogitsSummaryTokens = 393'216;

// Returns options of a PeerGroup for calls with at most `max_rows` rows.
PeerGroupOptions row_maxima_group(int64_t max_rows);

// Submits one dependent launch, which may start before the stream's previous kernel has ended and
// waits for it. Needs compute capability 9.0 or more. Returns kUnsupported for more tokens than
// kMaxLogitsSummaryTokens.
Status logits_summary_cuda(const LogitsSummaryCallCuda& call, cudaStream_t stream);

// Loads the kernel on the current device. Call it once per device, before any graph is captured.
Status prepare_logits_summary_cuda();

}  // namespace forerun::cuda
