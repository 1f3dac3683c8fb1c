#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>
#include <vector>

#include "base/noise.h"
#include "base/token_weight.h"
#include "kernels/logits_summary/logits_summary.h"

namespace forerun {
namespace {

// Returns a Gumbel draw's sum for a token, in double.
double noisy_score(const TokenLogit& token, const TokenLogit& best, const RowQuery& query) {
  const uint64_t seed = uint64_t{query.seed_high} << 32 | query.seed_low;
  const uint32_t bits =
      noise_bits(seed, NoiseStream::kTarget, query.position, static_cast<uint32_t>(token.token));
  const double depth = static_cast<double>(token.logit) - static_cast<double>(best.logit);
  return depth * static_cast<double>(query.inv_temperature) +
         static_cast<double>(gumbel_noise(bits));
}

constexpr auto kRoom = static_cast<size_t>(LogitsSummary::kMaxListed);

// Writes the first `length` of `tokens`, which are in order.
void write_list(const std::vector<TokenLogit>& tokens, size_t length, LogitsSummary* summary) {
  const bool fits = length <= kRoom;
  summary->num_listed = fits ? static_cast<int32_t>(length) : -1;
  summary->lists_all = fits && length == tokens.size() ? 1 : 0;
  if (fits) std::copy_n(tokens.begin(), length, summary->listed);
}

void list_by_logit(std::vector<TokenLogit> tokens, size_t top, LogitsSummary* summary) {
  std::stable_sort(tokens.begin(), tokens.end(),
                   [](const TokenLogit& a, const TokenLogit& b) { return a.logit > b.logit; });
  size_t length = std::min(tokens.size(), top);
  while (length < tokens.size() && tokens[length].logit == tokens[length - 1].logit) ++length;
  write_list(tokens, length, summary);
}

void list_by_noise(const std::vector<TokenLogit>& tokens, const RowQuery& query,
                   LogitsSummary* summary) {
  std::vector<std::pair<double, size_t>> sums;
  sums.reserve(tokens.size());
  for (size_t index = 0; index < tokens.size(); ++index) {
    sums.emplace_back(-noisy_score(tokens[index], summary->best, query), index);
  }
  std::sort(sums.begin(), sums.end());
  size_t length = std::min(sums.size(), static_cast<size_t>(query.top));
  const double max_sum =
      length > 0 ? sums[length - 1].first + static_cast<double>(kNoiseMargin) : 0.0;
  while (length < sums.size() && sums[length].first <= max_sum) ++length;
  std::vector<TokenLogit> ranked;
  ranked.reserve(sums.size());
  for (const auto& [sum, index] : sums) ranked.push_back(tokens[index]);
  write_list(ranked, length, summary);
  summary->by_noise = 1;
}

}  // namespace

void logits_summary_ref(std::span<const float> logits, int32_t first_token, const RowQuery& query,
                        const float* weight_origin, LogitsSummary* summary) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  *summary = {};
  summary->best = {-kInfinity, -1};
  std::vector<TokenLogit> tokens;  // without masked tokens
  for (size_t index = 0; index < logits.size(); ++index) {
    if (!(logits[index] < kInfinity)) summary->bad = 1;
    if (logits[index] == -kInfinity) continue;
    tokens.push_back({logits[index], first_token + static_cast<int32_t>(index)});
    if (logits[index] > summary->best.logit) summary->best = tokens.back();
  }
  if (summary->bad != 0) return;

  if (query.top > 0) {
    if ((query.kinds & RowQuery::kNoisyTop) != 0) {
      list_by_noise(tokens, query, summary);
    } else {
      list_by_logit(tokens, static_cast<size_t>(query.top), summary);
    }
  }
  summary->has_weights = 1;
  summary->weight_origin = weight_origin == nullptr ? summary->best.logit : *weight_origin;
  for (const TokenLogit& token : tokens) {
    const float depth = token.logit - summary->weight_origin;
    if ((query.kinds & RowQuery::kWeights) != 0) {
      summary->weights += fixed_token_weight(token_weight(depth * query.inv_temperature));
    }
    if ((query.kinds & RowQuery::kRawWeights) != 0) {
      summary->raw_weights += fixed_token_weight(token_weight(depth * 1.0f));
    }
  }
  if ((query.kinds & RowQuery::kNoise) == 0) return;
  double largest = -std::numeric_limits<double>::infinity();
  for (const TokenLogit& token : tokens) {
    largest = std::max(largest, noisy_score(token, summary->best, query));
  }
  for (const TokenLogit& token : tokens) {
    if (noisy_score(token, summary->best, query) < largest - static_cast<double>(kNoiseMargin)) {
      continue;
    }
    if (summary->num_candidates == LogitsSummary::kMaxCandidates) {
      summary->num_candidates = -1;
      return;
    }
    summary->candidates[summary->num_candidates++] = token;
  }
}

}  // namespace forerun
