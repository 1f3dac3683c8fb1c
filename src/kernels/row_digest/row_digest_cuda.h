// Digests of rows of logits that lie on a GPU (kernels/row_digest/row_digest.h).
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "device/cuda/peer_group.h"
#include "forerun/status.h"
#include "kernels/row_digest/row_digest.h"

namespace forerun::cuda {

struct RowDigestCallCuda {
  const float* logits = nullptr;  // [rows][stride]; 16-byte aligned, as is the stride in bytes
  int64_t stride = 0;             // at least `tokens`, in whole groups of 4
  int32_t tokens = 0;
  int32_t first_token = 0;  // token of column 0, a multiple of 4
  // The step's data on the device: at `offset_offset` an int32, where [count] RowQuery begin
  // (16-byte aligned); at `count_offset` an int32, how many rows there are, at most `rows`.
  const std::byte* step = nullptr;
  int32_t offset_offset = 0;
  int32_t count_offset = 0;
  RowDigest* digests = nullptr;  // [rows]; mapped host memory. Untouched for kLogits
  int32_t rows = 0;
  // Of the GPUs that hold the other parts of the rows, who submit the same: mailbox 0 of a group as
  // row_maxima_group() has it, through which the rows' largest logits go to where weights are asked
  // for. Its words must be exchanged by all of them in between two calls, or the host wait. Null:
  // weights are measured from the part's own.
  const PeerMailboxes* peers = nullptr;
  uint32_t senders = 0;  // bit r: rank r takes part
};

// Tokens of a part that fit in the shared memory of a cluster.
inline constexpr int64_t kMostRowDigestTokens = 393'216;

// Mailboxes for calls of so many rows.
PeerGroupOptions row_maxima_group(int64_t most_rows);

// Submits one launch, which may start before the stream's previous kernel has ended and waits for
// it. For devices of compute capability 9.0 and up. Refuses more tokens than
// kMostRowDigestTokens (kUnsupported).
Status row_digest_cuda(const RowDigestCallCuda& call, cudaStream_t stream);

// Loads the kernel on the current device: once a device, before any graph is captured.
Status prepare_row_digest_cuda();

}  // namespace forerun::cuda
