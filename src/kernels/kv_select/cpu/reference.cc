#include <algorithm>
#include <cmath>
#include <vector>

#include "kernels/kv_select/kv_select.h"

namespace forerun {

std::vector<double> kv_importance_ref(const KvSelectionCall& call, const PagedKv& kv) {
  const auto num_heads = static_cast<int32_t>(call.queries.dim(1) / kv.head_dim);
  const auto tokens = static_cast<size_t>(call.tokens);
  std::vector<float> decoded(static_cast<size_t>(kv.head_dim));
  std::vector<double> importance(static_cast<size_t>(kv.num_kv_heads) * tokens, 0.0);
  for (int64_t row_idx = 0; row_idx < call.queries.dim(0); ++row_idx) {
    for (int32_t head = 0; head < num_heads; ++head) {
      const int32_t kv_head = head / (num_heads / kv.num_kv_heads);
      const float* const query = call.queries.row(row_idx) + head * kv.head_dim;
      std::vector<double> weights;
      for (int32_t token = 0; token < call.weighed(row_idx); ++token) {
        const std::byte* const key = kv.key(call.block_table[token / 64], token % 64, kv_head);
        const bool by_index = call.index.blocks != nullptr && token < call.tokens;
        if (by_index) pq_decode(kv, kv_head, call.index, token, decoded.data());
        double score = 0.0;
        for (int32_t dim = 0; dim < kv.head_dim; ++dim) {
          const double element =
              by_index ? decoded[static_cast<size_t>(dim)]
              : kv.dtype == DType::kF32
                  ? reinterpret_cast<const float*>(key)[dim / 4 * 16 + dim % 4]
                  : to_float(reinterpret_cast<const bf16*>(key)[dim / 8 * 32 + dim % 8]);
          score += static_cast<double>(query[dim]) * element;
        }
        weights.push_back(score / std::sqrt(static_cast<double>(kv.head_dim)));
      }
      const double highest = *std::max_element(weights.begin(), weights.end());
      double sum = 0.0;
      for (const double weight : weights) sum += std::exp(weight - highest);
      for (size_t token = 0; token < tokens; ++token) {
        importance[static_cast<size_t>(kv_head) * tokens + token] +=
            std::exp(weights[token] - highest) / sum;
      }
    }
  }
  std::vector<double> pooled(importance.size(), 0.0);
  for (int32_t kv_head = 0; kv_head < kv.num_kv_heads; ++kv_head) {
    const size_t begin = static_cast<size_t>(kv_head) * tokens;
    for (int32_t token = 0; token < call.tokens; ++token) {
      for (int32_t other = token - call.pooling / 2; other <= token + call.pooling / 2; ++other) {
        if (other < 0 || other >= call.tokens) continue;
        pooled[begin + static_cast<size_t>(token)] +=
            importance[begin + static_cast<size_t>(other)];
      }
    }
  }
  return pooled;
}

}  // namespace forerun
