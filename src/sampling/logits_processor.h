// Turns raw logits into the distribution that a request samples from.
//
// The order is fixed: logit bias; repetition penalty (over prompt and output), then frequency and
// presence penalties (over the output); temperature; top-k; top-p over the tokens that top-k keeps;
// min-p relative to the most likely token. Tokens that a constraint on the output does not allow,
// or that would end it too early, are masked after the penalties. Penalties have vLLM's order,
// filters that of Hugging Face transformers. Tokens are ordered by (logit descending, id
// ascending), so every filter keeps a prefix of one order. Probabilities are summed in fixed point,
// so no result depends on the order of summation, nor on how a group of devices shares the
// vocabulary. -inf masks a token; NaN and +inf are errors of the row (kInvalidArgument), and no
// edit turns a finite logit into one of the three.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "forerun/sampling_params.h"
#include "forerun/status.h"
#include "sampling/edit_list.h"
#include "sampling/logits_row.h"
#include "sampling/ranked_token.h"
#include "sampling/row_scan.h"
#include "sampling/scan.h"
#include "sampling/token_counts.h"
#include "step/greedy.h"
#include "step/token_constraint.h"
#include "step/types.h"

namespace forerun {

// Returns whether a row's distribution depends on earlier tokens, i.e. whether a penalty is on.
bool needs_history(const SamplingParams& params);

// The request and the position of a row. Views; nothing is kept.
struct RowContext {
  const SamplingParams* params = nullptr;
  int32_t position = 0;       // position of the token to be sampled
  int32_t prompt_tokens = 0;  // positions below it are prompt
  // The sequence before `position`: `history`, then `path`, which ends at position - 1. Read only
  // if needs_history() or if there is a constraint.
  const TokenCounts* history = nullptr;
  std::span<const TokenId> path;
  // The constraint on the output, and its state at the end of `history`. If the state is null, or a
  // draft token in `path` violates the constraint, nothing is masked: no token is sampled from such
  // a row.
  const TokenConstraint* constraint = nullptr;
  const TokenConstraint::State* constrained = nullptr;
  // The constraint's state at the end of `path`, if the caller knows it; null: it is computed from
  // `constrained`.
  const TokenConstraint::State* state = nullptr;
};

// Returns whether tokens that end the output may not be sampled yet. Depends only on the row's
// position.
inline bool holds_ends_back(const RowContext& context) {
  return context.position - context.prompt_tokens < context.params->min_tokens &&
         !context.params->end_tokens.empty();
}

// Returns whether logits are changed before the filters: by biases, penalties, masked end tokens or
// a constraint.
inline bool is_adjusted(const RowContext& context) {
  return !context.params->logit_bias.empty() || needs_history(*context.params) ||
         context.constraint != nullptr || holds_ends_back(context);
}

// A row after bias, penalties and filters, or a part of one. Points into the logits and the scratch
// from which it was made.
struct ProcessedRow {
  RowScan scan;           // scan of the logits after bias and penalties
  bool adjusted = false;  // whether there were biases or penalties
  // The scale of the whole row, also for a part. Here greedy requests have temperature 1 and no
  // filters.
  ScoreScale scale{0.0f, 1.0f};
  // If filtered, the part's tokens that are kept, in no order (at least one for a whole row), and
  // the last of them by rank.
  bool filtered = false;
  std::span<RankedToken> kept;
  RankedToken last_kept;

  float score_of(float logit) const { return (logit - scale.max_logit) * scale.inv_temperature; }
  bool keeps(const RankedToken& token) const {
    return !filtered || (!kept.empty() && !ranks_before(last_kept, token));
  }
  // Returns whether the part has no token to sample.
  bool empty() const { return filtered ? kept.empty() : scan.part_best().token < 0; }
};

// Working memory of one thread. It grows as its rows need and is kept.
struct SamplerScratch {
  std::vector<float> logits;
  std::vector<float> lane_max;
  std::vector<float> raw_lane_max;
  std::vector<int32_t> ids;
  std::vector<RankedToken> kept;
  std::vector<RankedToken> ranked;
  std::vector<RankedToken> merged;  // tokens of all parts
  std::vector<Candidate> gathered;  // candidates of all parts
  std::vector<Survivor> survivors;
  std::vector<double> target;  // rejection: the target's distribution, then its residuals
  std::vector<float> weights;
  EditList edits;
  std::vector<uint32_t> allowed;  // a bit per token
};

// Returns a row's logits after bias, penalties and constraint, in scratch.logits. The input must be
// in host memory.
std::span<const float> edited_logits(const LogitsRow& logits, const RowContext& context,
                                     SamplerScratch& scratch);

// `logits` is [live vocabulary] or a part of it. Fails if RowScan::start() fails.
Status process_logits(const LogitsRow& logits, const RowContext& context, SamplerScratch& scratch,
                      ProcessedRow* row);

}  // namespace forerun
