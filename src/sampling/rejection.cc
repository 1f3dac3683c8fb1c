#include "sampling/rejection.h"

#include <algorithm>
#include <string>

#include "base/noise.h"

namespace forerun {
namespace {

// Draws from weights p that sum to `sum`.
TokenId draw_from(std::span<const double> p, double sum, double uniform) {
  double rest = uniform * sum;
  TokenId last = 0;
  for (size_t token = 0; token < p.size(); ++token) {
    if (p[token] <= 0.0) continue;
    last = static_cast<TokenId>(token);
    rest -= p[token];
    if (rest < 0.0) break;
  }
  return last;  // the last possible token where rounding left a little of `rest`
}

RejectionOutcome accept_greedy(TokenId best, std::span<const TokenId> children) {
  const auto match = std::find(children.begin(), children.end(), best);
  return {match == children.end() ? -1 : static_cast<int32_t>(match - children.begin()), best};
}

}  // namespace

Status accept_child(std::span<const float> logits, const RowContext& context,
                    std::span<const TokenId> children, const DraftDistribution* draft,
                    SamplerScratch& scratch, RejectionOutcome* out) {
  ProcessedRow row;
  FORERUN_RETURN_IF_ERROR(process_logits(logits, context, scratch, &row));
  const SamplingParams& params = *context.params;
  if (is_greedy(params)) {
    *out = accept_greedy(row.best_token, children);
    return {};
  }
  if (!children.empty() && (draft == nullptr || draft->weights.size() > logits.size() ||
                            draft->weights.empty() || draft->total == 0)) {
    return Status(
        StatusCode::kInternal,
        "no draft distribution over the target's vocabulary for the children at position " +
            std::to_string(context.position));
  }
  dense_weights(row, scratch.weights);
  std::vector<double>& p = scratch.target;
  p.assign(scratch.weights.begin(), scratch.weights.end());
  double sum = 0.0;
  for (double weight : p) sum += weight;
  const double draft_total =
      draft == nullptr ? 1.0 : static_cast<double>(draft->total) / kFixedWeightScale;
  const auto draft_probability = [&](size_t token) {
    // What the draws were made from: the fixed-point values.
    return static_cast<double>(to_fixed_weight(draft->weights[token])) / kFixedWeightScale /
           draft_total;
  };
  for (size_t child = 0; child < children.size(); ++child) {
    const auto token = static_cast<size_t>(children[child]);
    if (token >= draft->weights.size()) {
      return Status(StatusCode::kInternal, "drafted token " + std::to_string(children[child]) +
                                               " lies beyond the draft's vocabulary of " +
                                               std::to_string(draft->weights.size()));
    }
    const double q = draft_probability(token);
    const double coin = noise_uniform53(params.seed, NoiseStream::kAcceptance, context.position,
                                        static_cast<uint32_t>(child));
    if (coin * q < p[token] / sum) {
      *out = {static_cast<int32_t>(child), children[child]};
      return {};
    }
    double left = 0.0;
    for (size_t other = 0; other < p.size(); ++other) {
      const double q_other = other < draft->weights.size() ? draft_probability(other) : 0.0;
      p[other] = std::max(p[other] / sum - q_other, 0.0);
      left += p[other];
    }
    if (left <= 0.0) {
      // p equals q up to rounding: nothing distinguishes a refusal from an acceptance.
      *out = {static_cast<int32_t>(child), children[child]};
      return {};
    }
    sum = left;
  }
  *out = {-1, draw_from(p, sum,
                        noise_uniform53(params.seed, NoiseStream::kResidual, context.position, 0))};
  return {};
}

}  // namespace forerun
