// Chooses which arm of `auto` (a way to speculate) runs: the one that is known to bring the most
// tokens a second, and for short trials others that may bring more. A trial is paid from a budget
// of regret, a share of the time decoded so far; an arm replaces another only once it is faster
// with confidence.
//
// One thread at a time.
#pragma once

#include <cstdint>
#include <vector>

#include "planner/arm_rates.h"

namespace forerun {

class ArmChoice {
 public:
  struct Options {
    double regret = 0.01;         // share of the time that trials may lose
    double trials = 0.01;         // share of the time that they may take
    double credit_seconds = 2.0;  // for either, before any time has passed
    double worth = 0.01;          // gain (a logarithm) below which no other arm is taken
    double confidence = 1.5;      // standard deviations
    double optimism = 2.2;        // standard deviations by which a tried arm may exceed its mean
  };
  // Predicted tokens a second of an arm that could run at this load.
  struct Forecast {
    int32_t arm = 0;
    double tokens_per_s = 0.0;  // above 0
    // Whether it speculates at this load. An arm that does not decodes plainly, which is known.
    bool speculates = true;
  };
  struct Costs {
    double trial_seconds = 0.0;   // that a trial lasts
    double change_seconds = 0.0;  // that a change of the arm costs
  };

  // Arm 0, the usual way to decode, runs at first.
  explicit ArmChoice(std::vector<ArmRates::Belief> priors) : ArmChoice(std::move(priors), {}) {}
  ArmChoice(std::vector<ArmRates::Belief> priors, Options options);

  // The running arm decoded `tokens` tokens in `seconds`; `predicted` tokens were expected, both
  // above 0. Takes it as one measurement at about `load`.
  void add(const BatchLoad& load, double tokens, double predicted, double seconds);
  // Decides which arm runs next, among those of `forecasts`, one of which is arm 0. Call it after
  // add(), and where the load has changed. `seconds` of decoding have passed since the last call.
  int32_t choose(const BatchLoad& load, const std::vector<Forecast>& forecasts, double seconds,
                 const Costs& costs);

  int32_t running() const { return running_; }
  // Whether the running arm is tried, and another one is known to be better.
  bool is_in_trial() const { return is_in_trial_; }
  const ArmRates& rates() const { return rates_; }
  double trial_seconds() const { return trial_seconds_; }

 private:
  const Options options_;
  ArmRates rates_;
  int32_t chosen_ = 0;
  int32_t running_ = 0;
  bool is_measured_ = false;  // since choose() was called last
  bool is_in_trial_ = false;
  double seconds_ = 0.0;        // decoded so far
  double trial_seconds_ = 0.0;  // of which in trials
  double lost_ = 0.0;           // that trials have cost
  double missed_ = 0.0;         // seconds that a better arm would have saved since it was better
};

}  // namespace forerun
