#include "engine/loop/auto_strategy.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace forerun {
namespace {

constexpr int32_t kMaxGuesses = 8;
// The prior belief about a usual plan that does not choose by costs. Its prediction is that of
// plain decoding, and its guesses usually make it faster.
constexpr ArmRates::Belief kUsualPrior = {.mean = 0.1, .deviation = 0.3};
constexpr ArmRates::Belief kSourcesPrior = {.mean = 0.0, .deviation = 0.09};
constexpr ArmRates::Belief kPlainPrior = {.mean = 0.0, .deviation = 0.03};
constexpr ArmRates::Belief kViewPrior = {.mean = 0.0, .deviation = 0.15};

// Numbers of Steps and rounds that are measured together, and of rounds that are not measured after
// a change: during these, earlier work ends and views select their tokens.
constexpr int32_t kMeasuredSteps = 16;
constexpr int32_t kMeasuredRounds = 4;
constexpr int32_t kSettlingRounds = 2;
// Number of Steps between two decisions at the same load.
constexpr int32_t kDecisionSteps = 64;
// Minimum number of Steps between two decisions when the load changes.
constexpr int32_t kPauseSteps = 8;
// Cost of a change, in plain Steps: guesses in flight are dropped, and a view selects its tokens.
constexpr double kChangeSteps = 3.0;
// A look that comes after more than this many plain Steps is not measured, and counts as this many:
// that time was not spent on decoding.
constexpr double kStallSteps = 20.0;
// The expected gain of speculation over plain decoding above which an arm is tried.
constexpr double kWorthATrial = 1.01;
// Number of measurements of the chosen arm beside requests with fixed plans after which an old
// measurement counts less, and the number that still counts after the number of such requests has
// changed.
constexpr double kMixedMemory = 8.0;
constexpr double kMixedKept = 1.0;
// The gain at which a view switches to another number of guesses per round.
constexpr double kOtherGamma = 1.02;

// Returns whether two loads are so close that a decision at one holds at the other.
bool alike(const BatchLoad& a, const BatchLoad& b) {
  const auto close = [](double x, double y) { return std::abs(x - y) <= 0.15 * std::max(x, y); };
  return close(a.sequences, b.sequences) &&
         close(static_cast<double>(a.context_tokens), static_cast<double>(b.context_tokens));
}

std::vector<ArmRates::Belief> priors(const std::vector<GuessSources>& usual, size_t candidates) {
  std::vector<ArmRates::Belief> made;
  for (const GuessSources& arm : usual) {
    made.push_back(usual.size() == 1 ? kUsualPrior : arm.any() ? kSourcesPrior : kPlainPrior);
  }
  made.resize(usual.size() + candidates, kViewPrior);
  return made;
}

// Returns whether there is memory for the candidate's own blocks.
bool has_room(const SpeculationCandidate& candidate, const BatchLoad& load) {
  return candidate.own_tokens <= load.free_tokens / load.sequences;
}

}  // namespace

AutoStrategy::AutoStrategy(std::vector<GuessSources> usual,
                           std::vector<SpeculationCandidate> candidates, ResolvePlan resolve)
    : usual_(std::move(usual)),
      resolve_(std::move(resolve)),
      acceptance_(std::move(candidates)),
      arms_(priors(usual_, acceptance_.candidates().size())),
      periods_(usual_.size() + acceptance_.candidates().size()),
      sources_(usual_.front()) {}

std::vector<std::string> AutoStrategy::names() const {
  std::vector<std::string> names;
  for (const GuessSources& arm : usual_) {
    names.emplace_back(usual_.size() == 1       ? "usual"
                       : arm.text && arm.drafts ? "text and draft"
                       : arm.text               ? "text"
                       : arm.drafts             ? "draft"
                                                : "plain");
  }
  for (const SpeculationCandidate& candidate : candidates()) {
    names.push_back(candidate.view + " " + std::to_string(candidate.draft.budget_tokens));
  }
  return names;
}

MeasuredArms AutoStrategy::measured() const {
  return {.arms = arms_.rates().measured(), .candidates = acceptance_.measured()};
}

void AutoStrategy::recall(const MeasuredArms& measured) {
  arms_.recall(measured.arms);
  acceptance_.recall(measured.candidates);
}

double AutoStrategy::speedup_of(const GuessSources& arm) const {
  if (usual_.size() == 1 || !arm.any()) return 1.0;
  return arm.drafts ? last_.speedup_by_draft : last_.speedup_by_text;
}

const std::shared_ptr<const SpeculationPlan>& AutoStrategy::plan_of(int32_t candidate,
                                                                    int32_t gamma) {
  const auto [plan, is_new] = plans_.try_emplace({candidate, gamma});
  if (!is_new) return plan->second;
  const auto resolved = resolve_(self_options(candidates()[static_cast<size_t>(candidate)], gamma));
  if (!resolved.ok()) return plan->second;
  auto made = std::make_shared<SpeculationPlan>(**resolved);
  made->automatic = true;
  return plan->second = std::move(made);
}

bool AutoStrategy::measure(const StepCosts& costs, const BatchLoad& load, const Progress& before,
                           const Progress& now) {
  const double seconds = now.seconds - before.seconds;
  if (!before.is_measurable || !now.is_measurable || seconds <= 0.0) return false;
  if (now.sequences < 1) return false;
  const SpeculationForecast plain = forecast_plain(costs, load);
  if (seconds > kStallSteps * plain.times.plain) return false;
  Period& period = periods_[static_cast<size_t>(arms_.running())];
  if (settling_ > 0) {
    --settling_;
    return false;
  }
  // A view that covers all of the text makes no guesses, so its time says nothing about the arm.
  const bool guesses =
      candidate() < 0 || applies(candidates()[static_cast<size_t>(candidate())], costs, load);
  if (!guesses) return false;
  const SpeculationForecast predicted =
      candidate() < 0 ? plain : forecast(costs, load, candidates(), candidate(), gamma_);
  ++period.looks;
  const auto tokens = static_cast<double>(now.tokens - before.tokens);
  const double gain =
      candidate() < 0 ? speedup_of(usual_[static_cast<size_t>(arms_.running())]) : 1.0;
  const int32_t fixed_requests = load.sequences - now.sequences;
  const double share = static_cast<double>(now.sequences) / load.sequences;
  const double off = fixed_requests > 0 ? std::exp(mixed_.bias) : 1.0;
  const double expected = share * off * gain * predicted.tokens_per_s * seconds;
  period.mixed_looks += fixed_requests > 0;
  period.tokens += tokens;
  period.predicted += expected;
  period.predicted_rounds += expected / predicted.tokens_per_round;
  period.spread.add(tokens, expected);
  if (period.looks < std::max(kMeasuredSteps, kMeasuredRounds * steps_a_round())) return false;
  Period ended = std::exchange(period, {});
  // acceptance_ learns how often guesses are accepted; an arm's measurement of a view covers only
  // the duration of its rounds.
  if (ended.rounds > 0.0) {
    ended.predicted = ended.predicted_rounds * ended.round_tokens / ended.rounds;
  }
  return ended.tokens > 0.0 && ended.predicted > 0.0 && add_measured(load, ended, fixed_requests);
}

bool AutoStrategy::add_measured(const BatchLoad& load, const Period& ended,
                                int32_t fixed_requests) {
  double predicted = ended.predicted;
  if (2 * ended.mixed_looks > ended.looks) {
    if (std::exchange(mixed_.fixed_requests, fixed_requests) != fixed_requests) {
      mixed_.count = std::min(mixed_.count, kMixedKept);
    }
    if (!arms_.is_in_trial()) {
      // The belief about the chosen arm stays unchanged while the factor is unknown.
      const double off =
          std::log(ended.tokens / predicted) - arms_.rates().belief(arms_.running(), load).mean;
      mixed_.count = std::min(mixed_.count + 1.0, kMixedMemory);
      mixed_.bias += off / mixed_.count;
      predicted *= std::exp(off / mixed_.count);
    } else if (mixed_.count < 1.0) {
      return false;
    }
  }
  arms_.add(load, ended.tokens, predicted, ended.spread.deviation());
  ++measurements_;
  return true;
}

bool AutoStrategy::decide(const StepCosts& costs, const BatchLoad& load, bool is_measured) {
  acceptance_.pass(decoded_, candidate());
  const double plain = forecast_plain(costs, load).tokens_per_s;
  std::vector<ArmChoice::Forecast> forecasts;
  for (int32_t arm = 0; arm < num_usual(); ++arm) {
    const GuessSources& sources = usual_[static_cast<size_t>(arm)];
    const double speedup = speedup_of(sources);
    forecasts.push_back({.arm = arm,
                         .tokens_per_s = plain * speedup,
                         .may_exceed = num_usual() == 1 || !sources.any() || speedup > kWorthATrial,
                         .changes_strategy = false});
  }
  // 0: the candidate makes no guesses at this load.
  std::vector<int32_t> gammas(candidates().size());
  const auto ranked =
      best_of_each(rank_speculation(costs, load, candidates(), {.max_gamma = kMaxGuesses}));
  for (int32_t idx = 0; idx < static_cast<int32_t>(candidates().size()); ++idx) {
    const auto best = std::find_if(ranked.begin(), ranked.end(),
                                   [&](const auto& each) { return each.candidate == idx; });
    if (best != ranked.end() && plan_of(idx, best->gamma)) {
      gammas[static_cast<size_t>(idx)] = best->gamma;
      const SpeculationCandidate& view = candidates()[static_cast<size_t>(idx)];
      forecasts.push_back(
          {.arm = arm_of(idx),
           .tokens_per_s = best->tokens_per_s,
           .begin_seconds = kv_read_seconds(costs, load, view.draft, view.kv_reads_to_begin)});
    } else if ((idx == candidate() || arm_of(idx) == arms_.chosen()) &&
               has_room(candidates()[static_cast<size_t>(idx)], load)) {
      // A candidate whose view covers all of the text decodes plainly.
      forecasts.push_back({.arm = arm_of(idx), .tokens_per_s = plain, .speculates = false});
    }
  }
  const double step = load.sequences / plain;
  const int32_t before = arms_.running();
  const int32_t round_before = steps_a_round();
  const int32_t arm = arms_.choose(
      load, forecasts, std::exchange(decoded_, 0.0),
      {.trial_seconds = 3.0 * kMeasuredSteps * step, .change_seconds = kChangeSteps * step});
  decided_load_ = load;
  looks_since_ = 0;
  // An arm that cannot be resolved is not among the forecasts.
  if (arm < num_usual()) {
    gamma_ = 0;
    if (before != arm) settling_ = kSettlingRounds * round_before;
    sources_ = usual_[static_cast<size_t>(arm)];
    return std::exchange(present_, nullptr) != nullptr;
  }
  const int32_t taken = arm - num_usual();
  int32_t gamma = gammas[static_cast<size_t>(taken)];
  if (arm == before && (gamma == 0 || !is_measured)) return false;
  if (arm == before && gamma != gamma_) {
    const auto rate = [&](int32_t guesses) {
      return forecast(costs, load, candidates(), taken, guesses).tokens_per_s;
    };
    if (rate(gamma) < kOtherGamma * rate(gamma_)) gamma = gamma_;
  }
  std::shared_ptr<const SpeculationPlan> next = plan_of(taken, gamma);
  if (next == present_) return false;
  present_ = std::move(next);
  gamma_ = gamma;
  settling_ = kSettlingRounds * std::max(round_before, steps_a_round());
  return true;
}

bool AutoStrategy::look(const LiveCosts& costs, BatchLoad load, const Progress& progress) {
  const Progress before = std::exchange(last_, progress);
  if (periods_.size() == 1 || load.sequences < 1 || before.seconds <= 0.0) return false;
  if (present_) {  // the view's own KV counts as available to it
    const int64_t view_tokens = candidates()[static_cast<size_t>(candidate())].own_tokens;
    load.free_tokens += std::min(load.sequences * view_tokens, INT64_MAX - load.free_tokens);
  }
  bool has_changed = false;
  costs.read([&](const StepCosts& known) {
    if (!known.has(Role::kTarget)) return;
    decoded_ += std::clamp(progress.seconds - before.seconds, 0.0,
                           kStallSteps * plain_step_seconds(known, load));
    const bool is_measured = measure(known, load, before, progress);
    ++looks_since_;
    const bool is_due = looks_since_ >= (alike(decided_load_, load) ? kDecisionSteps : kPauseSteps);
    if (is_measured || is_due) has_changed = decide(known, load, is_measured);
  });
  return has_changed;
}

void AutoStrategy::observe(const SpeculationPlan& plan, int32_t guesses, int32_t accepted) {
  if (&plan != present_.get() || guesses < 1) return;
  acceptance_.observe(candidate(), guesses, accepted);
  Period& period = periods_[static_cast<size_t>(arms_.running())];
  period.rounds += 1.0;
  period.round_tokens += accepted + 1.0;
}

}  // namespace forerun
