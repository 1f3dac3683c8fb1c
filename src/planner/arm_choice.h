// Chooses which arm of `auto` (a way to speculate) runs: the one with the highest known rate of
// tokens per second, and for short trials others that may be faster. Trials are paid from a budget
// of regret, a share of the time decoded so far; an arm replaces another only once it is faster
// with confidence.
//
// Thread rules: one thread at a time.
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
    double credit_trials = 4.0;  // number of trials that are paid in advance
    double credit_lost = 0.25;   // share of these trials' time that may be expected to be lost
    double worth = 0.01;         // gain (a logarithm) below which no other arm is chosen
    double confidence = 1.5;     // standard deviations by which an arm must be better
    double optimism = 2.2;  // standard deviations by which an arm may exceed its mean, for trials
  };
  // Predicted tokens per second of an arm that could run at this load.
  struct Forecast {
    int32_t arm = 0;
    double tokens_per_s = 0.0;  // above 0
    // Whether it speculates at this load. If not, it decodes plainly, at a known rate.
    bool speculates = true;
    // Whether a trial may find a higher rate than predicted. An arm without a guess that is worth
    // its row is at best as fast as plain decoding.
    bool may_exceed = true;
    // Whether requests change their strategy for it. A change between two arms without such a
    // change is nearly free.
    bool changes_strategy = true;
    // Seconds that a change to it costs in addition to Costs::change_seconds.
    double begin_seconds = 0.0;
  };
  struct Costs {
    double trial_seconds = 0.0;   // duration of a trial
    double change_seconds = 0.0;  // cost of a change of the strategy
  };

  // Arm 0, the usual way to decode, runs first.
  explicit ArmChoice(std::vector<ArmRates::Belief> priors) : ArmChoice(std::move(priors), {}) {}
  ArmChoice(std::vector<ArmRates::Belief> priors, Options options);

  // Adds one measurement at about `load`: the running arm decoded `tokens` tokens where `predicted`
  // were expected, both above 0. `deviation`: see ArmRates::add().
  void add(const BatchLoad& load, double tokens, double predicted, double deviation = 0.0);
  // Calls ArmRates::recall(). The first change to an arm that is better by the recalled rates need
  // not have paid for itself before.
  void recall(const std::vector<MeasuredArm>& arms);
  // Decides which arm runs next, among those of `forecasts`, one of which is arm 0. Call it after
  // add(), and when the load has changed. `seconds`: decoding time since the last call.
  int32_t choose(const BatchLoad& load, const std::vector<Forecast>& forecasts, double seconds,
                 const Costs& costs);

  int32_t running() const { return running_; }
  // Returns the arm that is believed to be the best; a trial of another may be running.
  int32_t chosen() const { return chosen_; }
  bool is_in_trial() const { return is_in_trial_; }
  const ArmRates& rates() const { return rates_; }
  double trial_seconds() const { return trial_seconds_; }

  // The logarithm of an arm's tokens per second.
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
  bool is_measured_ = false;  // since the last call of choose()
  bool is_in_trial_ = false;
  double seconds_ = 0.0;        // decoding time so far
  double trial_seconds_ = 0.0;  // part of seconds_ in trials
  double this_trial_ = 0.0;     // part of seconds_ in the present trial
  double lost_ = 0.0;           // expected loss of trials so far
  // For each arm, how many changes to it one second at the last load would pay for, and how many
  // its savings so far would have paid for.
  struct Missed {
    double saves = 0.0;
    double changes = 0.0;
  };
  std::vector<Missed> missed_;
};

}  // namespace forerun
