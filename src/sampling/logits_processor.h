// From raw logits to the distribution that a request samples from.
//
// The order is fixed: logit bias; repetition penalty (over prompt and output), then frequency and
// presence penalties (over the output); temperature; top-k; top-p over what top-k left; min-p
// relative to the most likely token. Penalties come in vLLM's order, filters in that of Hugging
// Face transformers. Tokens are ordered by (logit descending, id ascending), so every filter keeps
// a prefix of one order. Probabilities are summed in fixed point, so no result depends on the order
// of summation, nor on how a group of devices shares the vocabulary. -inf masks a token; NaN and
// +inf are errors.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "forerun/sampling_params.h"
#include "forerun/status.h"
#include "sampling/row_logits.h"
#include "sampling/scan.h"
#include "sampling/token_counts.h"
#include "step/types.h"

namespace forerun {

// Temperatures below it are greedy: scores would overflow.
inline constexpr float kGreedyTemperature = 1e-5f;
inline bool is_greedy(const SamplingParams& params) {
  return params.temperature < kGreedyTemperature;
}
// Whether a row's distribution depends on the tokens before it.
bool needs_history(const SamplingParams& params);

// Where in which request a row stands. Views; nothing is kept.
struct RowContext {
  const SamplingParams* params = nullptr;
  int32_t position = 0;       // of the token to be drawn
  int32_t prompt_tokens = 0;  // positions below it are prompt
  // The sequence before `position`: `history`, then `path`, which ends at position - 1. Read only
  // if needs_history().
  const TokenCounts* history = nullptr;
  std::span<const TokenId> path;
};

struct RankedToken {
  float logit = 0.0f;
  TokenId token = 0;
};
// Whether `a` comes before `b`.
inline bool ranks_before(const RankedToken& a, const RankedToken& b) {
  return a.logit > b.logit || (a.logit == b.logit && a.token < b.token);
}

// A row after bias, penalties and filters, or a part of one. Points into the logits and the scratch
// it was made from.
struct ProcessedRow {
  RowLogits logits{std::span<const float>()};  // after bias and penalties
  bool adjusted = false;                       // there were some
  std::span<const float> lane_max;
  // Of the whole row. Greedy requests have temperature 1 and no filters here.
  ScoreScale scale{0.0f, 1.0f};
  TokenId best_token = 0;
  // The best token of this part; -1 where it has none but masked ones.
  RankedToken part_best{0.0f, -1};
  // If filtered, the part's tokens that are kept, in no order (of a whole row at least one), and
  // the last of them by rank.
  bool filtered = false;
  std::span<RankedToken> kept;
  RankedToken last_kept;

  float score_of(float logit) const { return (logit - scale.max_logit) * scale.inv_temperature; }
  float score(TokenId token) const { return score_of(logits.at(token)); }  // that the part holds
  bool keeps(TokenId token) const {                                        // that the part holds
    return !filtered || (!kept.empty() && !ranks_before(last_kept, {logits.at(token), token}));
  }
  // Whether the part has anything to draw.
  bool empty() const { return filtered ? kept.empty() : part_best.token < 0; }
};

// Working memory of one thread. Grows to what its rows need and is kept.
struct SamplerScratch {
  std::vector<float> logits;
  std::vector<float> lane_max;
  std::vector<float> raw_lane_max;
  std::vector<int32_t> ids;
  std::vector<RankedToken> kept;
  std::vector<RankedToken> ranked;
  std::vector<RankedToken> merged;  // of all parts
  std::vector<Survivor> survivors;
  std::vector<double> target;  // rejection: the target's distribution, then its residuals
  std::vector<float> weights;
  std::vector<std::pair<TokenId, int32_t>> path_counts;
  std::vector<float> path_logits;
};

// `logits` in host memory, [live vocabulary] or a part of it. Fails with kInternal if one is NaN or
// +inf, or all are -inf, in any part; the message names the position.
Status process_logits(const RowLogits& logits, const RowContext& context, SamplerScratch& scratch,
                      ProcessedRow* row);

// The best tokens of a row and of a part of it; the lowest id among equals, -1 if all of the part
// are masked.
struct BestTokens {
  RankedToken row;
  RankedToken part;
};
// Sets `lane_max` and finds them. Fails as process_logits.
Status scan_row(const RowLogits& logits, int32_t position, std::vector<float>& lane_max,
                BestTokens* best);

}  // namespace forerun
