// Rows of logits and what is asked of them on a GPU, for the test and the bench of its digests.
#pragma once

#include <cstddef>
#include <cstring>
#include <span>
#include <utility>
#include <vector>

#include "base/status_macros.h"
#include "device/cuda/cuda_memory.h"
#include "device/cuda/cuda_stream.h"
#include "kernels/row_digest/row_digest_cuda.h"

namespace forerun::cuda {

class RowDigestRigCuda {
 public:
  static constexpr int kUnwritten = 0x5a;  // every byte of digests before the first call
  // `logits` [rows][stride], of which the first `tokens` of a row count.
  static Result<RowDigestRigCuda> create(std::span<const float> logits, int64_t stride,
                                         int32_t tokens, int32_t first_token,
                                         std::span<const RowQuery> queries) {
    RowDigestRigCuda rig;
    const auto rows = static_cast<int32_t>(queries.size());
    FORERUN_RETURN_IF_ERROR(prepare_row_digest_cuda());
    FORERUN_ASSIGN_OR_RETURN(rig.logits_, DeviceBuffer::allocate(logits.size_bytes(), "logits"));
    FORERUN_RETURN_IF_ERROR(rig.logits_.upload(std::as_bytes(logits)));
    // The number of rows, where their queries begin, and those.
    std::vector<std::byte> step(16 + queries.size_bytes());
    const int32_t header[2] = {rows, 16};
    std::memcpy(step.data(), header, sizeof(header));
    std::memcpy(step.data() + 16, queries.data(), queries.size_bytes());
    FORERUN_ASSIGN_OR_RETURN(rig.step_, DeviceBuffer::allocate(step.size(), "queries"));
    FORERUN_RETURN_IF_ERROR(rig.step_.upload(step));
    FORERUN_ASSIGN_OR_RETURN(rig.digests_,
                             PinnedBuffer::allocate(queries.size() * sizeof(RowDigest), "digests"));
    std::memset(rig.digests_.data(), kUnwritten, rig.digests_.bytes());
    rig.call_ = {.logits = rig.logits_.as<float>(),
                 .stride = stride,
                 .tokens = tokens,
                 .first_token = first_token,
                 .step = rig.step_.data(),
                 .offset_offset = 4,
                 .count_offset = 0,
                 .digests = rig.digests_.as<RowDigest>(),
                 .rows = rows};
    return rig;
  }

  const RowDigestCallCuda& call() const { return call_; }
  const DeviceBuffer& logits() const { return logits_; }
  // Of the last call.
  std::span<const RowDigest> digests() const {
    return {digests_.as<RowDigest>(), static_cast<size_t>(call_.rows)};
  }

 private:
  RowDigestRigCuda() = default;
  DeviceBuffer logits_, step_;
  PinnedBuffer digests_;
  RowDigestCallCuda call_;
};

}  // namespace forerun::cuda
