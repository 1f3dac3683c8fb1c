#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>
#include <vector>

#include "base/noise.h"
#include "base/token_weight.h"
#include "kernels/row_digest/row_digest.h"

namespace forerun {
namespace {

// A Gumbel draw's sum for a token, in double.
double noisy_score(const TokenLogit& token, const TokenLogit& best, const RowQuery& query) {
  const uint64_t seed = uint64_t{query.seed_high} << 32 | query.seed_low;
  const uint32_t bits =
      noise_bits(seed, NoiseStream::kTarget, query.position, static_cast<uint32_t>(token.token));
  const double depth = static_cast<double>(token.logit) - static_cast<double>(best.logit);
  return depth * static_cast<double>(query.inv_temperature) +
         static_cast<double>(gumbel_noise(bits));
}

constexpr auto kRoom = static_cast<size_t>(RowSummary::kMaxListed);

// `tokens` in order: the first `length`.
void write_list(const std::vector<TokenLogit>& tokens, size_t length, RowSummary* digest) {
  const bool fits = length <= kRoom;
  digest->num_listed = fits ? static_cast<int32_t>(length) : -1;
  digest->lists_all = fits && length == tokens.size() ? 1 : 0;
  if (fits) std::copy_n(tokens.begin(), length, digest->listed);
}

void list_by_logit(std::vector<TokenLogit> tokens, size_t top, RowSummary* digest) {
  std::stable_sort(tokens.begin(), tokens.end(),
                   [](const TokenLogit& a, const TokenLogit& b) { return a.logit > b.logit; });
  size_t length = std::min(tokens.size(), top);
  while (length < tokens.size() && tokens[length].logit == tokens[length - 1].logit) ++length;
  write_list(tokens, length, digest);
}

void list_by_noise(const std::vector<TokenLogit>& tokens, const RowQuery& query,
                   RowSummary* digest) {
  std::vector<std::pair<double, size_t>> sums;
  sums.reserve(tokens.size());
  for (size_t index = 0; index < tokens.size(); ++index) {
    sums.emplace_back(-noisy_score(tokens[index], digest->best, query), index);
  }
  std::sort(sums.begin(), sums.end());
  size_t length = std::min(sums.size(), static_cast<size_t>(query.top));
  const double most = length > 0 ? sums[length - 1].first + static_cast<double>(kNoiseMargin) : 0.0;
  while (length < sums.size() && sums[length].first <= most) ++length;
  std::vector<TokenLogit> ranked;
  ranked.reserve(sums.size());
  for (const auto& [sum, index] : sums) ranked.push_back(tokens[index]);
  write_list(ranked, length, digest);
  digest->by_noise = 1;
}

}  // namespace

void row_digest_ref(std::span<const float> logits, int32_t first_token, const RowQuery& query,
                    const float* weight_origin, RowSummary* digest) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  *digest = {};
  digest->best = {-kInfinity, -1};
  std::vector<TokenLogit> tokens;  // tokens that are not masked
  for (size_t index = 0; index < logits.size(); ++index) {
    if (!(logits[index] < kInfinity)) digest->bad = 1;
    if (logits[index] == -kInfinity) continue;
    tokens.push_back({logits[index], first_token + static_cast<int32_t>(index)});
    if (logits[index] > digest->best.logit) digest->best = tokens.back();
  }
  if (digest->bad != 0) return;

  if (query.top > 0) {
    if ((query.kinds & RowQuery::kNoisyTop) != 0) {
      list_by_noise(tokens, query, digest);
    } else {
      list_by_logit(tokens, static_cast<size_t>(query.top), digest);
    }
  }
  digest->has_weights = 1;
  digest->weight_origin = weight_origin == nullptr ? digest->best.logit : *weight_origin;
  for (const TokenLogit& token : tokens) {
    const float depth = token.logit - digest->weight_origin;
    if ((query.kinds & RowQuery::kWeights) != 0) {
      digest->weights += fixed_token_weight(token_weight(depth * query.inv_temperature));
    }
    if ((query.kinds & RowQuery::kRawWeights) != 0) {
      digest->raw_weights += fixed_token_weight(token_weight(depth * 1.0f));
    }
  }
  if ((query.kinds & RowQuery::kNoise) == 0) return;
  double largest = -std::numeric_limits<double>::infinity();
  for (const TokenLogit& token : tokens) {
    largest = std::max(largest, noisy_score(token, digest->best, query));
  }
  for (const TokenLogit& token : tokens) {
    if (noisy_score(token, digest->best, query) < largest - static_cast<double>(kNoiseMargin)) {
      continue;
    }
    if (digest->num_candidates == RowSummary::kMaxCandidates) {
      digest->num_candidates = -1;
      return;
    }
    digest->candidates[digest->num_candidates++] = token;
  }
}

}  // namespace forerun
