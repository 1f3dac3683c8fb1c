#include <algorithm>
#include <cmath>
#include <limits>
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

}  // namespace

void row_digest_ref(std::span<const float> logits, int32_t first_token, const RowQuery& query,
                    const float* weight_origin, RowDigest* digest) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  *digest = {};
  digest->best = {-kInfinity, -1};
  std::vector<TokenLogit> tokens;  // that are not masked
  for (size_t index = 0; index < logits.size(); ++index) {
    if (!(logits[index] < kInfinity)) digest->bad = 1;
    if (logits[index] == -kInfinity) continue;
    tokens.push_back({logits[index], first_token + static_cast<int32_t>(index)});
    if (logits[index] > digest->best.logit) digest->best = tokens.back();
  }
  if (digest->bad != 0) return;

  if (query.top > 0) {
    std::stable_sort(tokens.begin(), tokens.end(),
                     [](const TokenLogit& a, const TokenLogit& b) { return a.logit > b.logit; });
    size_t length = std::min(tokens.size(), static_cast<size_t>(query.top));
    while (length < tokens.size() && tokens[length].logit == tokens[length - 1].logit) ++length;
    const bool fits = length <= static_cast<size_t>(RowDigest::kMostListed);
    digest->num_listed = fits ? static_cast<int32_t>(length) : -1;
    digest->lists_all = fits && length == tokens.size() ? 1 : 0;
    if (fits) std::copy_n(tokens.begin(), length, digest->listed);
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
    if (digest->num_nominees == RowDigest::kMostNominees) {
      digest->num_nominees = -1;
      return;
    }
    digest->nominees[digest->num_nominees++] = token;
  }
}

}  // namespace forerun
