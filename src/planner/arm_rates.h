// The rate of each arm of `auto` (a way to speculate) at each load, as the ratio of measured to
// predicted tokens per second. The prediction is the prior: without measurements the ratio's
// logarithm has the prior's mean and deviation. Measurements at one load inform nearby loads, with
// a weight that falls with the distance, and old measurements fade. Pure.
//
// Thread rules: one thread at a time.
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
    double noise = 0.04;          // initial standard deviation of one measurement's logarithm
    double min_noise = 0.01;      // lower bound of the estimated noise
    double drift = 0.05;          // standard deviation added per octave of load
    double memory_seconds = 900;  // seconds after which a measurement counts 1/e
  };
  // The ratio's logarithm, normally distributed.
  struct Belief {
    double mean = 0.0;
    double deviation = 0.0;
  };

  // `priors`: one per arm, before any measurement. Every deviation is above 0.
  explicit ArmRates(std::vector<Belief> priors) : ArmRates(std::move(priors), Options{}) {}
  ArmRates(std::vector<Belief> priors, Options options);

  // Adds a measurement of an arm at about this load: the `ratio` > 0 of measured to predicted
  // tokens. `deviation`: the standard deviation of its logarithm, from the variation within the
  // measurement. The higher an arm's mean deviation, the less its measurements count. Weights from
  // each measurement's own deviation would favour lucky ones.
  void add(int32_t arm, const BatchLoad& load, double ratio, double deviation = 0.0);
  // Records that `seconds` of decoding have passed, so earlier measurements count less.
  void pass(double seconds);
  Belief belief(int32_t arm, const BatchLoad& load) const;

  // Returns the measurements, one entry per arm: the loads with the highest weights, 64 at most.
  std::vector<MeasuredArm> measured() const;
  // Takes the measurements of an earlier start, before any are added here. They count as if
  // measured an octave of load away, since much may have changed in between. `arms`: one entry per
  // arm; counts and ratios are above 0.
  void recall(const std::vector<MeasuredArm>& arms);

  int32_t arms() const { return static_cast<int32_t>(arms_.size()); }

 private:
  struct Cell {
    double weight = 0.0;  // number of measurements; older ones count less
    double mean = 0.0;    // mean of their logarithms
    double octaves_of_sequences = 0.0;
    double octaves_of_context = 0.0;
    double at = 0.0;  // time in seconds at which `weight` was updated
  };
  struct Arm {
    Belief prior;
    // Keyed by buckets of sequences and of context.
    std::map<std::pair<int32_t, int32_t>, Cell> cells;
    double noise_weight = 0.0;
    double noise_variance = 0.0;  // variance between measurements of one load
    double inner_weight = 0.0;
    double inner_variance = 0.0;  // variance between rounds within a measurement
  };
  double weight_now(const Cell& cell) const;
  double noise_variance(const Arm& arm) const;

  const Options options_;
  std::vector<Arm> arms_;
  double now_ = 0.0;
};

}  // namespace forerun
