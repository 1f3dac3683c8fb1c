// What each arm of `auto` (a way to speculate) brings at each load, as the ratio of measured to
// predicted tokens a second. The prediction is the prior: without measurements the ratio's
// logarithm has the prior's mean and deviation. Measurements at one load inform loads near it, the
// less the farther they are, and old ones count less and less. Pure.
//
// One thread at a time.
#pragma once

#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "planner/measured_arms.h"
#include "planner/speculation_costs.h"

namespace forerun {

class ArmRates {
 public:
  struct Options {
    double noise = 0.04;          // standard deviation of one measurement's logarithm, at first
    double min_noise = 0.01;      // no noise below this is believed
    double drift = 0.05;          // standard deviation that an octave of load adds
    double memory_seconds = 900;  // seconds after which a measurement counts 1/e
  };
  // The ratio's logarithm, normally distributed.
  struct Belief {
    double mean = 0.0;
    double deviation = 0.0;
  };

  // `priors`: by arm, before anything is measured. Every deviation is above 0.
  explicit ArmRates(std::vector<Belief> priors) : ArmRates(std::move(priors), Options{}) {}
  ArmRates(std::vector<Belief> priors, Options options);

  // Takes a measurement of an arm at about this load: `ratio` > 0 of measured to predicted tokens.
  // `deviation`: the standard deviation of its logarithm, by what varied within the measurement.
  // The higher an arm's mean deviation, the less its measurements count. Weighting each by its own
  // deviation would favour those that had no luck.
  void add(int32_t arm, const BatchLoad& load, double ratio, double deviation = 0.0);
  // `seconds` of decoding have passed: what was measured before counts less.
  void pass(double seconds);
  Belief belief(int32_t arm, const BatchLoad& load) const;

  // What has been measured, by arm: the loads of which most is known, 64 at most.
  std::vector<MeasuredArm> measured() const;
  // Takes what an earlier start has measured, before anything is measured here. It counts as if
  // measured an octave of load away, since much may have changed in between. `arms`: one for each
  // arm; counts and ratios are above 0.
  void recall(const std::vector<MeasuredArm>& arms);

  int32_t arms() const { return static_cast<int32_t>(arms_.size()); }

 private:
  struct Cell {
    double weight = 0.0;  // measurements; older ones count less
    double mean = 0.0;    // mean of their logarithms
    double octaves_of_sequences = 0.0;
    double octaves_of_context = 0.0;
    double at = 0.0;  // seconds when `weight` was right
  };
  struct Arm {
    Belief prior;
    std::map<std::pair<int32_t, int32_t>, Cell> cells;  // by bucket of sequences and of context
    double noise_weight = 0.0;
    double noise_variance = 0.0;  // how far measurements of one load differ
    double inner_weight = 0.0;
    double inner_variance = 0.0;  // how far rounds within a measurement differ
  };
  double weight_now(const Cell& cell) const;
  double noise_variance(const Arm& arm) const;

  const Options options_;
  std::vector<Arm> arms_;
  double now_ = 0.0;
};

}  // namespace forerun
