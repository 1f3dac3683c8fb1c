#include "exec/batch_costs.h"

#include <algorithm>
#include <cmath>

#include "exec/step_scheduler.h"

namespace forerun {
namespace {

constexpr int32_t kResultsToRefresh = 512;
constexpr double kTurnMemory = 0.02;  // weight of the last turn in the mean
constexpr int64_t kExactSequences = 8;
// The host's time for a request's decision whether to guess, including its search for guesses,
// beyond that of a round that rests: 4 to 6 us on a Xeon of 3 GHz (host_time_bench, auto_repeats).
constexpr double kDecisionSeconds = 5e-6;

// Returns the bucket of a value. Values in one bucket share a table; a bucket spans 41%.
int64_t octave_halves(int64_t value) {
  return std::lround(2.0 * std::log2(static_cast<double>(std::max<int64_t>(value, 1))));
}
// Returns the bucket of a number of sequences: one each up to 8, beyond that 19% wide.
int64_t sequences_bucket(int64_t sequences) {
  if (sequences <= kExactSequences) return sequences;
  return kExactSequences + std::lround(4.0 * std::log2(static_cast<double>(sequences) /
                                                       static_cast<double>(kExactSequences)));
}

}  // namespace

void BatchCosts::join(int64_t tokens) {
  ++sequences_;
  tokens_ += tokens;
}

void BatchCosts::leave(int64_t tokens) {
  --sequences_;
  tokens_ -= tokens;
}

void BatchCosts::note_turn(Role role, size_t rows, double seconds) {
  TurnSeconds& mean = turns_[static_cast<size_t>(role)];
  double& value = rows > 1 ? mean.tree : mean.plain;
  value = value == 0.0 ? seconds : value + kTurnMemory * (seconds - value);
}

void BatchCosts::note_step(const WorkResult& result) {
  ++results_since_refresh_;
  if (sequences_ == 0 || result.step_sequences < 1) return;
  // Every sequence of a Step reports the Step, so each report counts as its share.
  const double part = 1.0 / result.step_sequences;
  if (result.role == Role::kTarget) {
    drafted_ = false;
    rest_steps_ -= part;
  } else if (!sequential_) {
    return;
  } else if (!result.left_out) {
    drafted_ = true;
    drafted_steps_ += part;
  } else if (!drafted_ && rest_steps_ <= 0.0) {
    // In a round that has drafted, a deeper draft Step that is turned down does not count as
    // refused.
    if (drafted_steps_ > kLongestRest) next_rest_ = kShortestRest;
    drafted_steps_ = 0.0;
    rest_steps_ = next_rest_;
    next_rest_ = std::min(2.0 * next_rest_, kLongestRest);
  }
}

void BatchCosts::tell_of_drafting_together(int64_t context) {
  table_.drafts_together = sequences_ > 1;
  table_.drafts_rest = rest_steps_ > 0.0;
  const float one_row_alone = costs_->table(1, context).at(Role::kDraft, 1);
  if (one_row_alone <= 0.0f) return;
  table_.draft_alone =
      std::max(1.0f, static_cast<float>(sequences_) * one_row_alone / table_.at(Role::kDraft, 1));
}

void BatchCosts::charge_for_prompts(float waiting_per_decoding) {
  if (waiting_per_decoding <= 1.0f) return;
  auto& [target, draft] = table_.seconds;
  for (size_t rows = 2; rows < target.size(); ++rows) {
    target[rows] = target[1] + waiting_per_decoding * (target[rows] - target[1]);
  }
  if (!sequential_) return;
  for (float& seconds : draft) seconds *= waiting_per_decoding;
}

void BatchCosts::find_min_row(int64_t context) {
  table_.min_row = 0.0f;
  if (sequences_ < 2) return;
  const auto sequences = static_cast<int32_t>(sequences_);
  costs_->read([&](const StepCosts& costs) {
    if (!costs.has(Role::kTarget)) return;
    const StepLoad plain = even_load(sequences, 1, context);
    const double seconds = costs.seconds(Role::kTarget, plain);
    double min_row = 0.0;
    const auto consider = [&](int32_t rows) {
      if (rows <= plain.rows) return;
      const int32_t more = rows - plain.rows;
      const StepLoad load = {rows, plain.kv_tokens, sequences,
                             plain.attended_tokens + more * context};
      const double row = (costs.seconds(Role::kTarget, load) - seconds) / more;
      min_row = min_row > 0.0 ? std::min(min_row, row) : row;
    };
    consider(plain.rows + 1);
    for (const StepCosts::Entry& entry : costs.entries(Role::kTarget)) consider(entry.rows);
    // At least slightly above 0, even if further rows are free: 0 means that their cost is not
    // known.
    table_.min_row = static_cast<float>(std::max(min_row, 1e-3 * seconds / sequences));
  });
}

CostTable BatchCosts::for_newcomer() const {
  if (version_ > 0) return table_;
  return costs_ != nullptr ? costs_->table(1, kReferenceContext) : CostTable{};
}

void BatchCosts::refresh() {
  if (costs_ == nullptr || sequences_ == 0) return;
  const int64_t context = tokens_ / sequences_;
  const int64_t held_up = std::max(admitted_, sequences_);
  const Bucket bucket = {sequences_bucket(sequences_), octave_halves(256 + context),
                         rest_steps_ > 0.0 ? 1 : 0, sequences_bucket(held_up)};
  if (bucket == load_bucket_ && results_since_refresh_ < kResultsToRefresh) return;
  load_bucket_ = bucket;
  results_since_refresh_ = 0;
  table_ = costs_->table(static_cast<int32_t>(sequences_), context);
  if (sequential_) tell_of_drafting_together(context);
  find_min_row(context);
  table_.decision = sequences_ > 1
                        ? static_cast<float>(kDecisionSeconds * static_cast<double>(sequences_))
                        : 0.0f;
  if (held_up > sequences_ && table_.entry[1] > 0.0f) {
    table_.prompt_rows = StepScheduler::kMinPromptRows;
  }
  charge_for_prompts(static_cast<float>(held_up) / static_cast<float>(sequences_));
  for (size_t role = 0; role < turns_.size(); ++role) {
    if (table_.seconds[role][1] <= 0.0f) continue;
    const auto sequences = static_cast<double>(sequences_);
    const double plain = sequences * turns_[role].plain;
    // A turn with a tree takes at least as long as one without.
    const double tree = std::max(plain, sequences * turns_[role].tree);
    table_.seconds[role][1] += static_cast<float>(plain);
    for (size_t rows = 2; rows < table_.seconds[role].size(); ++rows) {
      table_.seconds[role][rows] += static_cast<float>(tree);
    }
  }
  ++version_;
}

}  // namespace forerun
