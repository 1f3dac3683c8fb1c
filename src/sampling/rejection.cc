#include "sampling/rejection.h"

#include <algorithm>
#include <string>

#include "base/noise.h"
#include "base/status_macros.h"

namespace forerun {
namespace {

// Probabilities in fixed point, for sums that do not depend on their order: 2^62 is one.
constexpr double kFixedOne = 0x1p62;
// A residual below 2^-40 is a rounding error of an empty residual.
constexpr uint64_t kResidualEpsilon = uint64_t{1} << 22;

uint64_t to_fixed_probability(double p) { return static_cast<uint64_t>(p * kFixedOne); }

// Samples from the weights p of a part, with the sum `sum` over all parts; gives the same token on
// every device.
TokenId draw_from(const LogitsRow& logits, std::span<const double> p, double sum, uint64_t random) {
  const auto fixed = [&](size_t index) { return to_fixed_probability(p[index] / sum); };
  uint64_t own = 0;
  for (size_t index = 0; index < p.size(); ++index) own += fixed(index);
  const PartOfWeights part(logits, own);
  const int64_t index = part.find(scaled_random(random, part.total), fixed);
  const TokenId own_token = index < 0 ? -1 : logits.first_token + static_cast<TokenId>(index);
  TokenId drawn = -1;
  for_each_part(logits, own_token, [&drawn](TokenId other) { drawn = std::max(drawn, other); });
  return drawn;
}

RejectionOutcome accept_greedy(TokenId best, std::span<const TokenId> children) {
  const auto match = std::find(children.begin(), children.end(), best);
  return {match == children.end() ? -1 : static_cast<int32_t>(match - children.begin()), best};
}

// Decides one node of a request that samples.
RejectionOutcome accept_drawn(const LogitsRow& logits, const RowContext& context,
                              std::span<const TokenId> children, const DraftDistribution& draft,
                              const ProcessedRow& row, SamplerScratch& scratch) {
  const uint64_t seed = context.params->seed;
  scratch.weights.resize(logits.values.size());
  const uint64_t part = dense_weights(row, scratch.weights);
  // The target's distribution, later its residual: weights of the part, and the sum over all parts.
  std::vector<double>& p = scratch.target;
  p.assign(scratch.weights.begin(), scratch.weights.end());
  double sum = static_cast<double>(sum_of_parts(logits, part)) / kFixedWeightScale;
  const double draft_total = static_cast<double>(draft.total) / kFixedWeightScale;
  const auto draft_probability = [&](size_t token) {
    // Uses the fixed-point values, from which the samples were drawn.
    return static_cast<double>(to_fixed_weight(draft.weights[token])) / kFixedWeightScale /
           draft_total;
  };
  for (size_t child = 0; child < children.size(); ++child) {
    const TokenId token = children[child];
    double weight = 0.0;
    const double own_weight =
        logits.holds(token) ? p[static_cast<size_t>(token - logits.first_token)] : 0.0;
    for_each_part(logits, own_weight, [&weight](double other) { weight += other; });
    const double q = draft_probability(static_cast<size_t>(token));
    const double coin = noise_uniform53(seed, NoiseStream::kAcceptance, context.position,
                                        static_cast<uint32_t>(child));
    if (coin * q < weight / sum) return {static_cast<int32_t>(child), token};
    uint64_t left = 0;
    for (size_t index = 0; index < p.size(); ++index) {
      const auto other = static_cast<size_t>(logits.first_token) + index;
      const double q_other = other < draft.weights.size() ? draft_probability(other) : 0.0;
      p[index] = std::max(p[index] / sum - q_other, 0.0);
      left += to_fixed_probability(p[index]);
    }
    left = sum_of_parts(logits, left);
    // p equals q up to rounding, so a rejection and an acceptance are indistinguishable.
    if (left < kResidualEpsilon) return {static_cast<int32_t>(child), token};
    sum = static_cast<double>(left) / kFixedOne;
  }
  return {-1, draw_from(logits, p, sum,
                        noise_word64(seed, NoiseStream::kResidual, context.position, 0))};
}

}  // namespace

Status accept_child(const LogitsRow& logits, const RowContext& context,
                    std::span<const TokenId> children, const DraftDistribution* draft,
                    SamplerScratch& scratch, RejectionOutcome* out) {
  ProcessedRow row;
  FORERUN_RETURN_IF_ERROR(process_logits(logits, context, scratch, &row));
  if (is_greedy(*context.params)) {
    *out = accept_greedy(row.scan.best().token, children);
    return {};
  }
  const DraftDistribution none;
  const DraftDistribution& drawn_from = draft == nullptr ? none : *draft;
  if (!children.empty() && (drawn_from.weights.size() > static_cast<size_t>(logits.vocab) ||
                            drawn_from.weights.empty() || drawn_from.total == 0)) {
    return Status(
        StatusCode::kInternal,
        "no draft distribution over the target's vocabulary for the children at position " +
            std::to_string(context.position));
  }
  for (const TokenId token : children) {
    if (token >= 0 && static_cast<size_t>(token) < drawn_from.weights.size()) continue;
    return Status(StatusCode::kInternal, "drafted token " + std::to_string(token) +
                                             " lies beyond the draft's vocabulary of " +
                                             std::to_string(drawn_from.weights.size()));
  }
  FORERUN_RETURN_IF_ERROR(row.scan.read());
  *out = accept_drawn(logits, context, children, drawn_from, row, scratch);
  return {};
}

}  // namespace forerun
