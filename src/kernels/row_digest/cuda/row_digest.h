// Digests of rows of logits that lie on a GPU (kernels/row_digest/row_digest.h).
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "device/cuda/peer_group.h"
#include "forerun/status.h"
#include "kernels/row_digest/row_digest.h"
#include "kernels/row_digest/row_edits.h"

namespace forerun::cuda {

// The RowEdits of a row as the kernel reads them. Lists lie in the step's data, at offsets of bytes
// from its beginning, each a multiple of 8.
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
  // host memory; null: all tokens are allowed.
  const uint32_t* mask = nullptr;
};

// Words of a mask of so many tokens.
constexpr int64_t mask_words_cuda(int64_t vocab) { return (vocab + 127) / 128 * 4; }

struct RowDigestCallCuda {
  const float* logits = nullptr;  // [rows][stride]; 16-byte aligned, as is the stride in bytes
  int64_t stride = 0;             // at least `tokens`, in whole groups of 4
  int32_t tokens = 0;
  int32_t first_token = 0;  // token of column 0, a multiple of 4
  // The step's data on the device: at `offset_offset` an int32, where [count] RowQuery begin
  // (16-byte aligned); at `count_offset` an int32, how many rows there are, at most `rows`; at
  // `edits_offset_offset` an int32, where the RowEditsCuda begin that queries refer to.
  const std::byte* step = nullptr;
  int32_t offset_offset = 0;
  int32_t edits_offset_offset = 0;
  int32_t count_offset = 0;
  RowSummary* digests = nullptr;  // [rows]; mapped host memory. Untouched for kLogits
  int32_t rows = 0;
  // Of the GPUs that hold the other parts of the rows, who submit the same: mailbox 0 of a group as
  // row_maxima_group() has it, through which the rows' largest logits go to where weights are asked
  // for. Its words must be exchanged by all of them in between two calls, or the host wait. Null:
  // weights are measured from the part's own.
  const PeerMailboxes* peers = nullptr;
  uint32_t senders = 0;  // bit r: rank r takes part
};

// Tokens of a part that fit in the shared memory of a cluster.
inline constexpr int64_t kMaxRowDigestTokens = 393'216;

// Mailboxes for calls of so many rows.
PeerGroupOptions row_maxima_group(int64_t most_rows);

// Submits one launch, which may start before the stream's previous kernel has ended and waits for
// it. For devices of compute capability 9.0 and up. Refuses more tokens than
// kMaxRowDigestTokens (kUnsupported).
Status row_digest_cuda(const RowDigestCallCuda& call, cudaStream_t stream);

// Loads the kernel on the current device: once a device, before any graph is captured.
Status prepare_row_digest_cuda();

}  // namespace forerun::cuda
