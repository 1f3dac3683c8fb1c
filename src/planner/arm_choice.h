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
    double regret = 0.01;        // share of the time that trials may be expected to lose
    double trials = 0.014;       // share of the time that trials may take
    double credit_trials = 4.0;  // trials that are paid before any time has passed
    double credit_lost = 0.25;   // share of these trials' time that they may be expected to lose
    double worth = 0.01;         // gain (a logarithm) below which no other arm is taken
    double confidence = 1.5;     // standard deviations by which an arm must be better
    double optimism = 2.2;       // standard deviations by which a tried arm may exceed its mean
  };
  // Predicted tokens a second of an arm that could run at this load.
  struct Forecast {
    int32_t arm = 0;
    double tokens_per_s = 0.0;  // above 0
    // Whether it speculates at this load. If not, it decodes plainly, at a known rate.
    bool speculates = true;
    // Whether a trial may find more than is predicted. An arm without a guess that is worth its row
    // decodes as plain decoding does, or slower.
    bool may_exceed = true;
    // Whether requests change their strategy for it. A change between two arms for which they do
    // not is nearly free.
    bool changes_strategy = true;
    double begin_seconds = 0.0;  // seconds that a change to it costs beside Costs::change_seconds
  };
  struct Costs {
    double trial_seconds = 0.0;   // seconds that a trial takes
    double change_seconds = 0.0;  // seconds that a change of the strategy costs
  };

  // Arm 0, the usual way to decode, runs at first.
  explicit ArmChoice(std::vector<ArmRates::Belief> priors) : ArmChoice(std::move(priors), {}) {}
  ArmChoice(std::vector<ArmRates::Belief> priors, Options options);

  // The running arm decoded `tokens` tokens where `predicted` were expected, both above 0: one
  // measurement at about `load`. `deviation`: as of ArmRates::add().
  void add(const BatchLoad& load, double tokens, double predicted, double deviation = 0.0);
  // Calls ArmRates::recall(). The first change to an arm that is better by what is recalled need
  // not have paid for itself before.
  void recall(const std::vector<MeasuredArm>& arms);
  // Decides which arm runs next, among those of `forecasts`, one of which is arm 0. Call it after
  // add(), and where the load has changed. `seconds` of decoding have passed since the last call.
  int32_t choose(const BatchLoad& load, const std::vector<Forecast>& forecasts, double seconds,
                 const Costs& costs);

  int32_t running() const { return running_; }
  // The arm that is thought to be the best; a trial of another may be running.
  int32_t chosen() const { return chosen_; }
  bool is_in_trial() const { return is_in_trial_; }
  const ArmRates& rates() const { return rates_; }
  double trial_seconds() const { return trial_seconds_; }

  // The logarithm of an arm's tokens a second.
  struct Rate {
    int32_t arm = 0;
    double mean = 0.0;
    double deviation = 0.0;
    bool is_plain = false;  // does not speculate at this load
    bool may_exceed = true;
    bool changes_strategy = true;
    double begin_seconds = 0.0;
  };

 private:
  void pass(double seconds);
  const Rate& choose_best(const std::vector<Rate>& rates, const Costs& costs);
  void begin_trial(const std::vector<Rate>& rates, const Rate& best, const Costs& costs);

  const Options options_;
  ArmRates rates_;
  int32_t chosen_ = 0;
  int32_t running_ = 0;
  bool is_measured_ = false;  // since choose() was called last
  bool is_in_trial_ = false;
  double seconds_ = 0.0;        // decoded so far
  double trial_seconds_ = 0.0;  // seconds of these in trials
  double this_trial_ = 0.0;     // seconds of these in the present trial
  double lost_ = 0.0;           // seconds that trials were expected to cost
  // For each arm: how many changes to it one second at the last load would pay for, and how many
  // its savings so far would have paid for.
  struct Missed {
    double saves = 0.0;
    double changes = 0.0;
  };
  std::vector<Missed> missed_;
};

}  // namespace forerun
