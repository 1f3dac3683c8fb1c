#include "kernels/logits_summary/row_edits.h"

#include <cstddef>
#include <limits>
#include <vector>

namespace forerun {

void edit_logits(std::span<float> logits, int32_t first_token, const RowEdits& edits,
                 std::span<const uint32_t> mask) {
  const auto find = [&](int32_t token) -> float* {
    const int64_t index = int64_t{token} - first_token;
    const bool held = index >= 0 && index < static_cast<int64_t>(logits.size());
    return held ? &logits[static_cast<size_t>(index)] : nullptr;
  };
  for (const auto& [token, bias] : edits.biases) {
    if (float* const logit = find(token)) *logit = biased(*logit, bias);
  }
  // Saves the path's tokens, since a penalty cannot be applied twice.
  std::vector<float> aside;
  for (const TokenCount& counted : edits.path) {
    const float* const logit = find(counted.token);
    aside.push_back(logit == nullptr ? 0.0f : *logit);
  }
  for (const TokenCount& counted : edits.history) {
    float* const logit = find(counted.token);
    if (logit != nullptr) *logit = penalized(*logit, counted.output_count, edits.penalties);
  }
  for (size_t index = 0; index < edits.path.size(); ++index) {
    const TokenCount& counted = edits.path[index];
    float* const logit = find(counted.token);
    if (logit == nullptr) continue;
    *logit = penalized(aside[index], counted.output_count, edits.penalties);
  }
  if (edits.mask < 0) return;
  for (size_t index = 0; index < logits.size(); ++index) {
    const size_t token = static_cast<size_t>(first_token) + index;
    if ((mask[token / 32] >> (token % 32) & 1u) == 0) {
      logits[index] = -std::numeric_limits<float>::infinity();
    }
  }
}

}  // namespace forerun
