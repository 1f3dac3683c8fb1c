// Rows of logits with their queries on a GPU, for the test and the bench of logits_summary.
#pragma once

#include <cstddef>
#include <cstring>
#include <span>
#include <utility>
#include <vector>

#include "base/status_macros.h"
#include "device/cuda/cuda_memory.h"
#include "device/cuda/cuda_stream.h"
#include "kernels/logits_summary/cuda/logits_summary.h"

namespace forerun::cuda {

class LogitsSummaryRigCuda {
 public:
  static constexpr int kUnwritten = 0x5a;  // every byte of summaries before the first call
  // `logits` is [rows][stride]; the first `tokens` of a row are valid. Queries refer to `edits` by
  // index. `masks` is [edits][mask_words_cuda(..)]: an edit with a mask that is not negative uses
  // the mask of its own index.
  static Result<LogitsSummaryRigCuda> create(std::span<const float> logits, int64_t stride,
                                             int32_t tokens, int32_t first_token,
                                             std::span<const RowQuery> queries,
                                             std::span<const RowEdits> edits = {},
                                             std::span<const uint32_t> masks = {}) {
    LogitsSummaryRigCuda rig;
    const auto rows = static_cast<int32_t>(queries.size());
    FORERUN_RETURN_IF_ERROR(prepare_logits_summary_cuda());
    FORERUN_ASSIGN_OR_RETURN(rig.logits_, DeviceBuffer::allocate(logits.size_bytes(), "logits"));
    FORERUN_RETURN_IF_ERROR(rig.logits_.upload(std::as_bytes(logits)));
    // The Step's data has the number of rows, the offsets of queries and edits, then queries and
    // edits.
    std::vector<std::byte> step(16);
    const int32_t header[3] = {rows, append(queries, &step), static_cast<int32_t>(step.size())};
    std::memcpy(step.data(), header, sizeof(header));
    FORERUN_RETURN_IF_ERROR(rig.append_edits(edits, masks, &step));
    FORERUN_ASSIGN_OR_RETURN(rig.step_, DeviceBuffer::allocate(step.size(), "queries"));
    FORERUN_RETURN_IF_ERROR(rig.step_.upload(step));
    FORERUN_ASSIGN_OR_RETURN(
        rig.summaries_,
        PinnedBuffer::allocate(queries.size() * sizeof(LogitsSummary), "summaries"));
    std::memset(rig.summaries_.data(), kUnwritten, rig.summaries_.bytes());
    rig.call_ = {.logits = rig.logits_.as<float>(),
                 .stride = stride,
                 .tokens = tokens,
                 .first_token = first_token,
                 .step = rig.step_.data(),
                 .offset_offset = 4,
                 .edits_offset_offset = 8,
                 .count_offset = 0,
                 .summaries = rig.summaries_.as<LogitsSummary>(),
                 .rows = rows};
    return rig;
  }

  const LogitsSummaryCallCuda& call() const { return call_; }
  const DeviceBuffer& logits() const { return logits_; }
  // Returns the summaries of the last call.
  std::span<const LogitsSummary> summaries() const {
    return {summaries_.as<LogitsSummary>(), static_cast<size_t>(call_.rows)};
  }

 private:
  LogitsSummaryRigCuda() = default;
  template <class T>
  static int32_t append(std::span<const T> values, std::vector<std::byte>* bytes) {
    const size_t offset = bytes->size();
    bytes->resize(offset + (values.size_bytes() + 15) / 16 * 16);
    if (!values.empty()) std::memcpy(bytes->data() + offset, values.data(), values.size_bytes());
    return static_cast<int32_t>(offset);
  }
  Status append_edits(std::span<const RowEdits> edits, std::span<const uint32_t> masks,
                      std::vector<std::byte>* step) {
    if (edits.empty()) return {};
    FORERUN_ASSIGN_OR_RETURN(masks_, PinnedBuffer::allocate(masks.size_bytes() + 16, "masks"));
    if (!masks.empty()) std::memcpy(masks_.data(), masks.data(), masks.size_bytes());
    std::vector<RowEditsCuda> rows(edits.size());
    const int32_t offset = append(std::span<const RowEditsCuda>(rows), step);
    for (size_t row = 0; row < edits.size(); ++row) {
      const RowEdits& from = edits[row];
      rows[row] = {.penalties = from.penalties,
                   .num_biases = static_cast<int32_t>(from.biases.size()),
                   .biases_offset = append(from.biases, step),
                   .num_history = static_cast<int32_t>(from.history.size()),
                   .history_offset = append(from.history, step),
                   .num_path = static_cast<int32_t>(from.path.size()),
                   .path_offset = append(from.path, step),
                   .mask = from.mask < 0
                               ? nullptr
                               : masks_.as<uint32_t>() + row * (masks.size() / edits.size())};
    }
    std::memcpy(step->data() + offset, rows.data(), std::span(rows).size_bytes());
    return {};
  }
  DeviceBuffer logits_, step_;
  PinnedBuffer masks_;
  PinnedBuffer summaries_;
  LogitsSummaryCallCuda call_;
};

}  // namespace forerun::cuda
