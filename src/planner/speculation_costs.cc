#include "planner/speculation_costs.h"

#include <algorithm>
#include <cmath>
#include <vector>

namespace forerun {
namespace {

int64_t seen_tokens(const BatchLoad& load, int64_t budget_tokens, int64_t grown_tokens = 0) {
  if (budget_tokens <= 0) return load.context_tokens;
  return std::min(budget_tokens + grown_tokens, load.context_tokens);
}

int64_t seen_tokens(const BatchLoad& load, const DraftOption& draft) {
  return seen_tokens(load, draft.budget_tokens, draft.grown_tokens);
}

// Returns the load of a draft Step with `rows` rows per sequence.
StepLoad draft_load(const BatchLoad& load, const DraftOption& draft, int32_t rows) {
  const int64_t seen = seen_tokens(load, draft);
  StepLoad step = even_load(load.sequences, rows, seen);
  step.through_view = seen < load.context_tokens;
  return step;
}

}  // namespace

double tokens_per_round(int32_t gamma, double acceptance) {
  // The sum of acceptance^0 to acceptance^gamma: equation 1 without its pole at 1.
  double tokens = 1.0;
  double chance = 1.0;
  for (int32_t guess = 0; guess < gamma; ++guess) {
    chance *= acceptance;
    tokens += chance;
  }
  return tokens;
}

double acceptance_of(int32_t gamma, double tokens) {
  if (tokens <= 1.0) return 0.0;
  if (tokens >= gamma + 1.0) return 1.0;
  double low = 0.0;
  double high = 1.0;
  for (int halving = 0; halving < 50; ++halving) {
    const double middle = 0.5 * (low + high);
    (tokens_per_round(gamma, middle) < tokens ? low : high) = middle;
  }
  return 0.5 * (low + high);
}

double expected_checks(int32_t gamma, int32_t guesses, double acceptance) {
  // Indexed by the number of tokens that are still missing.
  std::vector<double> checks(static_cast<size_t>(gamma) + 1, 0.0);
  for (int32_t missing = 1; missing <= gamma; ++missing) {
    double more = 0.0;
    double reached = 1.0;  // the chance that this many guesses are accepted
    for (int32_t right = 0; right <= guesses; ++right) {
      const double ends = right < guesses ? reached * (1.0 - acceptance) : reached;
      more += ends * checks[static_cast<size_t>(std::max(0, missing - right - 1))];
      reached *= acceptance;
    }
    checks[static_cast<size_t>(missing)] = 1.0 + more;
  }
  return checks.back();
}

double plain_step_seconds(const StepCosts& costs, const BatchLoad& load) {
  return costs.seconds(Role::kTarget, even_load(load.sequences, 1, load.context_tokens));
}

double verify_step_seconds(const StepCosts& costs, const BatchLoad& load, int32_t gamma) {
  return costs.seconds(Role::kTarget, even_load(load.sequences, gamma + 1, load.context_tokens));
}

double draft_step_seconds(const StepCosts& costs, const BatchLoad& load, const DraftOption& draft) {
  return costs.seconds(draft.model, draft_load(load, draft, 1 + draft.checks.guesses));
}

double guesses_seconds(const StepCosts& costs, const BatchLoad& load, const DraftOption& draft) {
  const GuessOption& checks = draft.checks;
  if (!checks.by_model) return 0.0;
  const int64_t seen = seen_tokens(load, checks.budget_tokens);
  return checks.guesses * costs.seconds(Role::kDraft, even_load(load.sequences, 1, seen));
}

double kv_read_seconds(const StepCosts& costs, const BatchLoad& load, const DraftOption& draft,
                       double times) {
  if (times <= 0.0) return 0.0;
  StepLoad step = draft_load(load, draft, 1);
  const double alone = costs.seconds(draft.model, step);
  const auto read = static_cast<int64_t>(
      std::llround(times * load.sequences * static_cast<double>(load.context_tokens)));
  step.kv_tokens += read;
  step.attended_tokens += read;
  return std::max(0.0, costs.seconds(draft.model, step) - alone);
}

double selection_seconds(const StepCosts& costs, const BatchLoad& load, const DraftOption& draft) {
  return kv_read_seconds(costs, load, draft, draft.selection_share);
}

RoundSeconds round_seconds(const StepCosts& costs, const BatchLoad& load, const DraftOption& draft,
                           int32_t gamma, double overhead) {
  return {.plain = plain_step_seconds(costs, load),
          .draft = draft_step_seconds(costs, load, draft),
          .guesses = guesses_seconds(costs, load, draft),
          .drafted = gamma / expected_checks(gamma, draft.checks.guesses, draft.checks.acceptance),
          .selection = selection_seconds(costs, load, draft),
          .verify = verify_step_seconds(costs, load, gamma),
          .overhead = overhead};
}

double total_seconds(const RoundSeconds& times, int32_t gamma) {
  const double steps = std::max(1.0, gamma / times.drafted);
  return steps * (times.draft + times.guesses + times.selection) + times.verify + times.overhead;
}

double seconds_per_token(const RoundSeconds& times, int32_t gamma, double tokens) {
  return total_seconds(times, gamma) / tokens;
}

double predicted_speedup(const RoundSeconds& times, int32_t gamma, double tokens) {
  return times.plain / seconds_per_token(times, gamma, tokens);
}

}  // namespace forerun
