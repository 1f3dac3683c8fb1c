#include <algorithm>
#include <cmath>
#include <vector>

#include "kernels/attention/attention.h"

namespace forerun {
namespace {

// Returns element `dim` of a cached value, which is contiguous.
double value_element(const PagedKv& kv, const std::byte* head, int32_t dim) {
  if (kv.dtype == DType::kF32) return reinterpret_cast<const float*>(head)[dim];
  return to_float(reinterpret_cast<const bf16*>(head)[dim]);
}

// Returns element `dim` of a cached key; its pieces of 16 bytes lie 64 bytes apart.
double key_element(const PagedKv& kv, const std::byte* head, int32_t dim) {
  if (kv.dtype == DType::kF32) return reinterpret_cast<const float*>(head)[dim / 4 * 16 + dim % 4];
  return to_float(reinterpret_cast<const bf16*>(head)[dim / 8 * 32 + dim % 8]);
}

}  // namespace

void attention_ref(MatrixView<const float> q, std::span<const AttentionRow> rows, const PagedKv& kv,
                   int32_t window, MatrixView<float> out) {
  const auto num_heads = static_cast<int32_t>(q.dim(1) / kv.head_dim);
  std::vector<double> probs;
  for (size_t row_idx = 0; row_idx < rows.size(); ++row_idx) {
    const AttentionRow& row = rows[row_idx];
    const int32_t first = window > 0 ? std::max(0, row.last_visible - window + 1) : 0;
    for (int32_t head = 0; head < num_heads; ++head) {
      const int32_t kv_head = head / (num_heads / kv.num_kv_heads);
      const float* query = q.row(static_cast<int64_t>(row_idx)) + head * kv.head_dim;
      const auto slot_of = [&row](int32_t position) {
        return position < row.boundary ? position : row.ancestors[position - row.boundary];
      };
      probs.clear();
      for (int32_t position = first; position <= row.last_visible; ++position) {
        const int32_t slot = slot_of(position);
        const std::byte* key = kv.key(row.block_table[slot / 64], slot % 64, kv_head);
        double score = 0.0;
        for (int32_t dim = 0; dim < kv.head_dim; ++dim) {
          score += static_cast<double>(query[dim]) * key_element(kv, key, dim);
        }
        probs.push_back(score / std::sqrt(static_cast<double>(kv.head_dim)));
      }
      const double maximum = *std::max_element(probs.begin(), probs.end());
      double sum = 0.0;
      for (double& prob : probs) {
        prob = std::exp(prob - maximum);
        sum += prob;
      }
      float* result = out.row(static_cast<int64_t>(row_idx)) + head * kv.head_dim;
      for (int32_t dim = 0; dim < kv.head_dim; ++dim) {
        double value = 0.0;
        for (int32_t position = first; position <= row.last_visible; ++position) {
          const int32_t slot = slot_of(position);
          const std::byte* v = kv.value(row.block_table[slot / 64], slot % 64, kv_head);
          value += probs[static_cast<size_t>(position - first)] * value_element(kv, v, dim);
        }
        result[dim] = static_cast<float>(value / sum);
      }
    }
  }
}

}  // namespace forerun
