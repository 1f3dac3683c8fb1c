#include "engine/loop/auto_strategy.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace forerun {
namespace {

constexpr int32_t kMaxGuesses = 8;
// The predicted speed-up over the usual plan at which a view replaces it, and below which it is
// given up. A trial costs little and measures what the prediction cannot know, the acceptance rate.
constexpr double kToEnter = 1.05;
constexpr double kToStay = 1.0;

// Rounds that are measured together, and rounds that are not measured after a view has begun.
constexpr int32_t kMeasuredRounds = 6;
constexpr int32_t kMeasuredSteps = 24;  // at least
constexpr int32_t kSettlingRounds = 2;
// A view is kept where it brings this many times the usual tokens a second.
constexpr double kWorth = 1.02;
// The number of looks between a failed trial and the next one, and the most to which it doubles.
// With Steps of 30 ms these are a minute and a quarter of an hour.
constexpr int64_t kFirstBackoff = 2000;
constexpr int64_t kLongestBackoff = 32'000;

// Whether two loads are close enough for measurements at one to hold at the other.
bool alike(const BatchLoad& a, const BatchLoad& b) {
  const auto close = [](double x, double y) { return std::abs(x - y) <= 0.15 * std::max(x, y); };
  return close(a.sequences, b.sequences) &&
         close(static_cast<double>(a.context_tokens), static_cast<double>(b.context_tokens));
}

}  // namespace

AutoStrategy::AutoStrategy(std::vector<SpeculationCandidate> candidates, ResolvePlan resolve)
    : resolve_(std::move(resolve)),
      chooser_(std::move(candidates), {.rank = {.max_gamma = kMaxGuesses}}) {}

const std::shared_ptr<const SpeculationPlan>& AutoStrategy::plan_of(int32_t candidate,
                                                                    int32_t gamma) {
  auto& plan = plans_[{candidate, gamma}];
  if (plan) return plan;
  const auto& view = chooser_.candidates()[static_cast<size_t>(candidate)];
  const auto resolved = resolve_(self_options(view, gamma));
  if (!resolved.ok()) return plan;
  auto made = std::make_shared<SpeculationPlan>(**resolved);
  made->automatic = true;
  return plan = std::move(made);
}

double AutoStrategy::Meter::rate(const Progress& now) const {
  const double seconds = now.seconds - begin.seconds;
  return seconds > 0.0 ? static_cast<double>(now.tokens - begin.tokens) / seconds : 0.0;
}

bool AutoStrategy::change_to(std::shared_ptr<const SpeculationPlan> next, int32_t candidate) {
  if (next == present_) return false;
  // With another number of guesses it is still the view that was measured to be faster.
  const int32_t before = std::exchange(candidate_, next ? candidate : -1);
  if (candidate_ != before) proven_ = false;
  present_ = std::move(next);
  meter_.looks = 0;
  return true;
}

bool AutoStrategy::measure(const BatchLoad& load, const Progress& progress) {
  const int32_t steps = present_ ? present_->draft_depth + 1 : 1;  // of a round
  // The first rounds still end earlier work and choose the view's head, so they are not measured.
  const int32_t settled = present_ ? kSettlingRounds * steps : 0;
  if (meter_.looks == 0 || meter_.looks == settled || !alike(meter_.load, load)) {
    meter_.begin = progress;
    if (!alike(meter_.load, load)) {
      meter_.looks = std::min(meter_.looks, settled);
      proven_ = false;
    }
    meter_.load = load;
  }
  const int32_t measured = std::max(kMeasuredSteps, present_ ? kMeasuredRounds * steps : 0);
  if (++meter_.looks <= settled + measured) return true;
  const double rate = meter_.rate(progress);
  meter_.looks = settled;
  if (!present_) {
    usual_load_ = load;
    usual_rate_ = rate;
    return true;
  }
  if (!alike(usual_load_, load)) return true;
  const bool is_worth_it = rate >= kWorth * usual_rate_;
  // One slow measurement does not end a view that was measured to be faster before.
  const bool stays = is_worth_it || proven_;
  proven_ = is_worth_it;
  if (is_worth_it) backoff_.looks = 0;
  return stays;
}

void AutoStrategy::back_off(const BatchLoad& load) {
  const bool again = backoff_.looks > 0 && alike(backoff_.load, load);
  backoff_ = {.looks = again ? std::min(2 * backoff_.looks, kLongestBackoff) : kFirstBackoff,
              .load = load,
              .begin = looks_};
}

bool AutoStrategy::backs_off(const BatchLoad& load) const {
  const int64_t looks =
      alike(backoff_.load, load) ? backoff_.looks : std::min(backoff_.looks, kFirstBackoff);
  return looks_ < backoff_.begin + looks;
}

bool AutoStrategy::look(const LiveCosts& costs, BatchLoad load, const Progress& progress) {
  if (chooser_.candidates().empty() || load.sequences < 1) return false;
  ++looks_;
  if (!measure(load, progress)) {
    back_off(load);
    return change_to(nullptr, -1);
  }
  if (present_) {  // the view's own KV is available to it
    load.free_tokens +=
        load.sequences * chooser_.candidates()[static_cast<size_t>(candidate_)].own_tokens;
  } else if (backs_off(load) || usual_rate_ <= 0.0 || !alike(usual_load_, load)) {
    return false;
  }
  SpeculationForecast choice;
  costs.read([&](const StepCosts& known) {
    if (known.has(Role::kTarget)) choice = chooser_.choose(known, load);
  });
  // The usual plan's speed-up over plain decoding.
  const double usual = std::max(1.0, usual_rate_ * choice.times.plain / load.sequences);
  const double needed = (present_ ? kToStay : kToEnter) * usual;
  if (!choice.is_plain() && choice.speedup >= needed) {
    return change_to(plan_of(choice.candidate, choice.gamma), choice.candidate);
  }
  // At the load for which a view was chosen, only measurements end it, not new predictions.
  if (present_ && alike(usual_load_, load)) return false;
  return change_to(nullptr, -1);
}

void AutoStrategy::observe(const SpeculationPlan& plan, int32_t guesses, int32_t accepted) {
  if (&plan != present_.get() || guesses < 1) return;
  chooser_.observe(candidate_, guesses, accepted);
}

}  // namespace forerun
