#include "exec/step_scheduler.h"

#include <algorithm>
#include <cmath>

namespace forerun {
namespace {

constexpr double kNextToNothing = 1.1;
// Beyond kFewGuesses guesses, only considers numbers of rows that are a multiple of kRowTile, since
// kernels work in tiles of rows.
constexpr int32_t kFewGuesses = 16;
constexpr int32_t kRowTile = 8;
// The smallest relative gain in the speed of all requests for which a batch drafts together: offers
// are overrated, and a draft that starts again has tokens to catch up with.
constexpr double kMinDraftGain = 0.02;

// Returns the load with `rows` rows of one more sequence, behind `context` tokens of its own.
StepLoad with_prompt(const StepLoad& load, int32_t rows, int32_t context) {
  StepLoad sum = load;
  sum.rows += rows;
  sum.sequences += 1;
  sum.kv_tokens += context + rows;
  sum.attended_tokens += int64_t{rows} * context + int64_t{rows} * (rows + 1) / 2;
  return sum;
}

}  // namespace

int32_t StepScheduler::verification_rows(const StepLoad& load, std::span<const float> gains,
                                         int64_t held_up) const {
  const auto max_rows = std::min(static_cast<int32_t>(gains.size()), budget_.rows - load.rows);
  if (max_rows <= 0) return 0;
  // A request that decodes alone has already chosen its rows by the same costs.
  if (held_up < 2 || !knows_costs()) return max_rows;
  int32_t chosen = 0;
  costs_->read([&](const StepCosts& costs) {
    const int64_t context = load.kv_tokens / std::max(load.sequences, 1);
    const double plain = costs.seconds(role_, load);
    double sum = 0.0;
    double best = 0.0;
    for (int32_t guesses = 1; guesses <= max_rows; ++guesses) {
      sum += gains[static_cast<size_t>(guesses) - 1];
      const StepLoad more = {load.rows + guesses, load.kv_tokens, load.sequences,
                             load.attended_tokens + guesses * context};
      if (guesses > kFewGuesses && guesses < max_rows && more.rows % kRowTile != 0) continue;
      const double slower = std::log(costs.seconds(role_, more) / plain);
      const double value = sum - static_cast<double>(held_up) * slower;
      if (value <= best) continue;
      best = value;
      chosen = guesses;
    }
  });
  return chosen;
}

int32_t StepScheduler::nearly_free_rows(int32_t rows) const {
  if (!knows_costs()) return budget_.rows;
  int32_t low = rows;
  costs_->read([&](const StepCosts& costs) {
    const double max_seconds = kNearlyFree * costs.seconds(role_, {.rows = rows});
    int32_t high = budget_.rows + 1;  // costs grow with rows
    while (low + 1 < high) {
      const int32_t middle = low + (high - low) / 2;
      (costs.seconds(role_, {.rows = middle}) <= max_seconds ? low : high) = middle;
    }
  });
  return low;
}

size_t StepScheduler::draft_items(const StepLoad& load, std::span<const DraftOffer> offers,
                                  int64_t held_up) const {
  if (held_up < 2 || !knows_costs()) return offers.size();
  size_t chosen = 0;
  costs_->read([&](const StepCosts& costs) {
    if (!costs.has(Role::kTarget)) {
      chosen = offers.size();
      return;
    }
    int64_t context = 0;
    for (const DraftOffer& offer : offers) context += offer.context;
    context /= static_cast<int64_t>(offers.size());
    const double round =
        costs.seconds(Role::kTarget, even_load(static_cast<int32_t>(held_up), 1, context));
    const double before = load.rows > 0 ? costs.seconds(role_, load) : 0.0;
    StepLoad more = load;
    double sum = 0.0;
    double best = load.rows > 0 ? 0.0 : kMinDraftGain * static_cast<double>(held_up);
    for (size_t taken = 0; taken < offers.size(); ++taken) {
      const DraftOffer& offer = offers[taken];
      more.rows += offer.rows;
      more.sequences += 1;
      more.kv_tokens += offer.context + offer.rows;
      more.attended_tokens += int64_t{offer.rows} * (offer.context + offer.rows);
      sum += offer.gain;
      const double slower = std::log1p((costs.seconds(role_, more) - before) / (round + before));
      const double value = sum - static_cast<double>(held_up) * slower;
      if (value <= best) continue;
      best = value;
      chosen = taken + 1;
    }
  });
  return chosen;
}

double StepScheduler::budget_seconds(const StepLoad& load, int64_t prompts,
                                     int64_t decoding) const {
  if (budget_.seconds > 0.0) return budget_.seconds;
  if (decoding == 0 || !knows_costs()) return kIdleSeconds;
  const double step = load.rows > 0 ? costs_->seconds(role_, load) : 0.0;
  // A Step with only prompt rows holds up a decoding Step of the target.
  const double held_up = load.rows > 0 ? step : costs_->seconds(Role::kTarget, {.rows = 1});
  const double stretched = step + (kDecodeStretch - 1.0) * held_up;
  const bool is_crowd = prompts * kDecodingAPrompt > decoding;
  return is_crowd ? std::max(kCrowdSeconds, stretched) : stretched;
}

int32_t StepScheduler::prompt_rows(const StepLoad& load, int32_t context, int32_t left,
                                   double budget_seconds, bool first) const {
  const int32_t max_rows = std::min(left, budget_.rows - load.rows);
  if (max_rows <= 0) return 0;
  const int32_t min_rows = std::min(max_rows, kMinPromptRows);
  if (!knows_costs() || (first && max_rows == min_rows)) return max_rows;
  const auto seconds = [&](int32_t rows) {
    return costs_->seconds(role_, with_prompt(load, rows, context));
  };
  // Further rows may cost next to nothing beside the required ones.
  const double budget =
      first ? std::max(budget_seconds, kNextToNothing * seconds(min_rows)) : budget_seconds;
  const auto fits = [&](int32_t rows) { return seconds(rows) <= budget; };
  if (fits(max_rows)) return max_rows;
  if (!first && !fits(min_rows)) return 0;
  // Tries multiples of kMinPromptRows; costs grow with rows.
  int32_t low = 1;
  int32_t high = (max_rows + kMinPromptRows - 1) / kMinPromptRows;
  while (low + 1 < high) {
    const int32_t middle = (low + high) / 2;
    (fits(middle * kMinPromptRows) ? low : high) = middle;
  }
  return low * kMinPromptRows;
}

}  // namespace forerun
