#include "planner/arm_choice.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace forerun {
namespace {

// A trial without a measurement ends after this multiple of its expected time.
constexpr double kMaxTrials = 3.0;
// The largest deviation at which a rate counts as measured, here or at a load nearby.
constexpr double kKnown = 0.1;
// The savings of a better arm must pay for the change to it and for the change back.
constexpr double kChangesPaid = 2.0;
// The cost of a change for which no request changes its strategy, as a share of one for which all
// do: rounds in progress finish unchanged, and a draft catches up.
constexpr double kCheapChange = 0.1;

using Rate = ArmChoice::Rate;

const Rate* find(const std::vector<Rate>& rates, int32_t arm) {
  const auto found =
      std::find_if(rates.begin(), rates.end(), [&](const Rate& rate) { return rate.arm == arm; });
  return found == rates.end() ? nullptr : &*found;
}

// Returns the share of the time that `a` saves over `b`.
double saved(const Rate& a, const Rate& b) { return 1.0 - std::exp(b.mean - a.mean); }

double change_seconds(const Rate& from, const Rate& to, const ArmChoice::Costs& costs) {
  const bool is_cheap = !from.changes_strategy && !to.changes_strategy;
  return (is_cheap ? kCheapChange : 1.0) * costs.change_seconds + to.begin_seconds;
}

}  // namespace

ArmChoice::ArmChoice(std::vector<ArmRates::Belief> priors, Options options)
    : options_(options), rates_(std::move(priors)), missed_(static_cast<size_t>(rates_.arms())) {}

void ArmChoice::add(const BatchLoad& load, double tokens, double predicted, double deviation) {
  rates_.add(running_, load, tokens / predicted, deviation);
  is_measured_ = true;
}

void ArmChoice::recall(const std::vector<MeasuredArm>& arms) {
  rates_.recall(arms);
  for (Missed& each : missed_) each.changes = 2.0 * kChangesPaid;
}

void ArmChoice::pass(double seconds) {
  rates_.pass(seconds);
  seconds_ += seconds;
  if (is_in_trial_) {
    trial_seconds_ += seconds;
    this_trial_ += seconds;
    return;
  }
  for (Missed& each : missed_) {
    each.changes = std::max(0.0, each.changes + each.saves * seconds);
  }
}

int32_t ArmChoice::choose(const BatchLoad& load, const std::vector<Forecast>& forecasts,
                          double seconds, const Costs& costs) {
  pass(seconds);
  std::vector<Rate> rates;
  for (const Forecast& forecast : forecasts) {
    const double predicted = std::log(forecast.tokens_per_s);
    if (!forecast.speculates) {
      rates.push_back({.arm = forecast.arm, .mean = predicted, .is_plain = true});
      continue;
    }
    const ArmRates::Belief belief = rates_.belief(forecast.arm, load);
    rates.push_back({.arm = forecast.arm,
                     .mean = predicted + belief.mean,
                     .deviation = belief.deviation,
                     .may_exceed = forecast.may_exceed,
                     .changes_strategy = forecast.changes_strategy,
                     .begin_seconds = forecast.begin_seconds});
  }
  // Plain decoding is never faster than the usual way.
  const double usual = find(rates, 0)->mean;
  for (Rate& rate : rates) {
    if (rate.is_plain) rate.mean = std::min(rate.mean, usual - 2.0 * options_.worth);
  }
  const Rate& best = choose_best(rates, costs);
  // A trial lasts until it has been measured, at any load, but not forever.
  const Rate* const running = find(rates, running_);
  const bool goes_on = is_in_trial_ && !is_measured_ && running != nullptr && !running->is_plain &&
                       this_trial_ < kMaxTrials * costs.trial_seconds;
  if (goes_on) return running_;
  // The chosen arm is measured between two trials.
  const bool may_try = is_measured_ && !is_in_trial_;
  is_measured_ = is_in_trial_ = false;
  running_ = chosen_;
  if (may_try) begin_trial(rates, best, costs);
  return running_;
}

const Rate& ArmChoice::choose_best(const std::vector<Rate>& rates, const Costs& costs) {
  const Rate* best = find(rates, chosen_);
  if (best == nullptr) best = find(rates, 0);
  const Rate* better = best;
  for (const Rate& rate : rates) {
    // An arm that has only been predicted needs a trial before it can be chosen.
    if (rate.arm != 0 && rate.deviation > kKnown) continue;
    const double doubt =
        best->is_plain ? 0.0 : options_.confidence * std::hypot(rate.deviation, best->deviation);
    const bool pays = missed_[static_cast<size_t>(rate.arm)].changes > kChangesPaid;
    if (pays && rate.mean - best->mean > std::max(options_.worth, doubt) &&
        rate.mean > better->mean) {
      better = &rate;
    }
  }
  if (better != best) missed_.assign(missed_.size(), {});
  best = better;
  chosen_ = best->arm;
  for (Missed& each : missed_) each.saves = 0.0;
  for (const Rate& rate : rates) {
    missed_[static_cast<size_t>(rate.arm)].saves =
        saved(rate, *best) / change_seconds(*best, rate, costs);
  }
  return *best;
}

void ArmChoice::begin_trial(const std::vector<Rate>& rates, const Rate& best, const Costs& costs) {
  const Rate* tried = nullptr;
  double max_hoped = best.mean + options_.worth;
  for (const Rate& rate : rates) {
    const double hoped = rate.mean + options_.optimism * rate.deviation;
    if (rate.arm != chosen_ && rate.may_exceed && hoped > max_hoped) {
      tried = &rate;
      max_hoped = hoped;
    }
  }
  if (tried == nullptr) return;
  const double cost = std::max(0.0, saved(best, *tried)) * costs.trial_seconds +
                      change_seconds(best, *tried, costs) + change_seconds(*tried, best, costs);
  const double credit = options_.credit_trials * costs.trial_seconds;
  if (lost_ + cost > options_.credit_lost * credit + options_.regret * seconds_) return;
  if (trial_seconds_ + costs.trial_seconds > credit + options_.trials * seconds_) return;
  lost_ += cost;
  is_in_trial_ = true;
  this_trial_ = 0.0;
  running_ = tried->arm;
}

}  // namespace forerun
