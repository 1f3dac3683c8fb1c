// From raw logits to the distribution that a request samples from.
//
// The order is fixed: logit bias; repetition penalty (over prompt and output), then frequency and
// presence penalties (over the output); temperature; top-k; top-p over what top-k left; min-p
// relative to the most likely token. Penalties come in vLLM's order, filters in that of Hugging
// Face transformers. Tokens are ordered by (logit descending, id ascending), so every filter keeps
// a prefix of one order. Probabilities are summed in fixed point, so no result depends on the order
// of summation. -inf masks a token; NaN and +inf are errors.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "forerun/sampling_params.h"
#include "forerun/status.h"
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

// A row after bias, penalties and filters. Points into the logits and the scratch it was made from.
struct ProcessedRow {
  std::span<const float> logits;  // after bias and penalties
  std::span<const float> lane_max;
  // Greedy requests have temperature 1 and no filters here.
  ScoreScale scale{0.0f, 1.0f};
  TokenId best_token = 0;
  // If filtered, the tokens kept, in no order (at least one), and the last of them by rank.
  bool filtered = false;
  std::span<RankedToken> kept;
  RankedToken last_kept;

  float score(TokenId token) const {
    return (logits[static_cast<size_t>(token)] - scale.max_logit) * scale.inv_temperature;
  }
  bool keeps(TokenId token) const {
    return !filtered || !ranks_before(last_kept, {logits[static_cast<size_t>(token)], token});
  }
};

// Working memory of one thread. Grows to what its rows need and is kept.
struct SamplerScratch {
  std::vector<float> logits;
  std::vector<float> lane_max;
  std::vector<float> raw_lane_max;
  std::vector<int32_t> ids;
  std::vector<RankedToken> kept;
  std::vector<RankedToken> ranked;
  std::vector<Survivor> survivors;
  std::vector<double> target;  // rejection: the target's distribution, then its residuals
  std::vector<float> weights;
  std::vector<std::pair<TokenId, int32_t>> path_counts;
  std::vector<float> path_logits;
};

// `logits` [live vocabulary] in host memory. Fails with kInternal if one is NaN or +inf, or all are
// -inf; the message names the position.
Status process_logits(std::span<const float> logits, const RowContext& context,
                      SamplerScratch& scratch, ProcessedRow* row);

// The `limit` best tokens that are not masked (fewer where there are fewer), best first if
// `sorted`. `row_max` is the largest logit, `lane_max` as of scan.h.
void best_tokens(std::span<const float> logits, std::span<const float> lane_max, float row_max,
                 int32_t limit, bool sorted, std::vector<int32_t>& ids,
                 std::vector<RankedToken>& out);

// Sets `lane_max` and finds the best token, the lowest id among equals. Fails as process_logits.
Status scan_row(std::span<const float> logits, int32_t position, std::vector<float>& lane_max,
                RankedToken* best);

}  // namespace forerun
