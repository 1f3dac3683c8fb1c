#include "planner/arm_choice.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace forerun {
namespace {

// The logarithm of an arm's tokens a second.
struct Rate {
  int32_t arm = 0;
  double mean = 0.0;
  double deviation = 0.0;
  bool is_plain = false;
};

const Rate* find(const std::vector<Rate>& rates, int32_t arm) {
  const auto found =
      std::find_if(rates.begin(), rates.end(), [&](const Rate& rate) { return rate.arm == arm; });
  return found == rates.end() ? nullptr : &*found;
}

// The share of the time that `a` saves over `b`.
double saved(const Rate& a, const Rate& b) { return 1.0 - std::exp(b.mean - a.mean); }

}  // namespace

ArmChoice::ArmChoice(std::vector<ArmRates::Belief> priors, Options options)
    : options_(options), rates_(std::move(priors)) {}

void ArmChoice::add(const BatchLoad& load, double tokens, double predicted, double seconds) {
  rates_.pass(seconds);
  seconds_ += seconds;
  if (is_in_trial_) trial_seconds_ += seconds;
  rates_.add(running_, load, tokens / predicted);
  is_measured_ = true;
}

int32_t ArmChoice::choose(const BatchLoad& load, const std::vector<Forecast>& forecasts,
                          double seconds, const Costs& costs) {
  std::vector<Rate> rates;
  for (const Forecast& forecast : forecasts) {
    const double predicted = std::log(forecast.tokens_per_s);
    if (!forecast.speculates) {
      rates.push_back({.arm = forecast.arm, .mean = predicted, .is_plain = true});
      continue;
    }
    const ArmRates::Belief belief = rates_.belief(forecast.arm, load);
    rates.push_back({forecast.arm, predicted + belief.mean, belief.deviation});
  }
  // Plain decoding is never faster than the usual way.
  const double usual = find(rates, 0)->mean;
  for (Rate& rate : rates) {
    if (rate.is_plain) rate.mean = std::min(rate.mean, usual - 2.0 * options_.worth);
  }
  const Rate* best = find(rates, chosen_);
  if (best == nullptr) best = find(rates, 0);
  const Rate* better = best;
  for (const Rate& rate : rates) {
    const double doubt =
        best->is_plain ? 0.0 : options_.confidence * std::hypot(rate.deviation, best->deviation);
    const double needed = std::max(options_.worth, doubt);
    if (rate.mean - best->mean > needed && rate.mean > better->mean) better = &rate;
  }
  // What the better arm would have saved pays for the change to it, and for the one back.
  missed_ = better == best ? 0.0 : missed_ + saved(*better, *best) * seconds;
  if (missed_ > 2.0 * costs.change_seconds) {
    best = better;
    missed_ = 0.0;
  }
  chosen_ = best->arm;
  // A trial lasts until it has been measured, at whatever loads.
  if (is_in_trial_ && !is_measured_ && find(rates, running_) != nullptr) return running_;
  const bool may_try = is_measured_ && !is_in_trial_;
  is_measured_ = is_in_trial_ = false;
  const Rate* tried = nullptr;
  double most = best->mean + options_.worth;
  for (const Rate& rate : rates) {
    const double hoped = rate.mean + options_.optimism * rate.deviation;
    if (rate.arm != chosen_ && hoped > most) {
      tried = &rate;
      most = hoped;
    }
  }
  running_ = chosen_;
  // The chosen arm is measured between two trials.
  if (tried == nullptr || !may_try) return running_;
  const double cost =
      std::max(0.0, saved(*best, *tried)) * costs.trial_seconds + 2.0 * costs.change_seconds;
  if (lost_ + cost > options_.credit_seconds + options_.regret * seconds_) return running_;
  if (trial_seconds_ + costs.trial_seconds > options_.credit_seconds + options_.trials * seconds_) {
    return running_;
  }
  lost_ += cost;
  is_in_trial_ = true;
  return running_ = tried->arm;
}

}  // namespace forerun
