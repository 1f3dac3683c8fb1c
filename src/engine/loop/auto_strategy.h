// Chooses the strategy of requests that leave it to the engine. The arms are
// - the strategy that `auto` resolves to on this machine, with all of its draft sources, some, or
//   none, which is plain decoding (engine/load/source_arms.h). Requests switch at their next round
//   and keep their strategy; within an arm, each request decides by the acceptance of its own
//   guesses;
// - the target drafting for itself through a view of its KV cache (sparse_self; MagicDec), one arm
//   per candidate; requests change their strategy for it.
// The cost model predicts the rate of each arm at the present load from the recent acceptance of
// guesses; measured tokens over wall time correct the prediction, by load (planner/arm_choice.h).
//
// Requests with fixed plans make Steps longer or shorter than the load alone predicts. While such
// requests run, arms are compared with the chosen arm, which is measured between trials, so that
// this common factor cancels out.
//
// Thread rules: the loop's thread only.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "engine/load/view_candidates.h"
#include "exec/live_costs.h"
#include "planner/arm_choice.h"
#include "planner/candidate_acceptance.h"
#include "planner/pace_spread.h"
#include "strategies/speculation_plan.h"

namespace forerun {

class AutoStrategy {
 public:
  // The output so far of all requests with a plan that the engine chooses.
  struct Progress {
    int64_t tokens = 0;
    double seconds = 0.0;  // time of a monotonic clock
    // Number of these requests that decode now. Other requests of the load have fixed plans.
    int32_t sequences = 0;
    bool is_measurable = true;  // whether neither model reads prompts
    // The expected speed-up of recent rounds over plain decoding, as reported by requests that
    // choose by costs (SharedAcceptance): with sources without a model, and with the draft model in
    // addition.
    double speedup_by_text = 1.0;
    double speedup_by_draft = 1.0;
  };

  // `usual` (source_arms()) must not be empty. `resolve` must accept every candidate
  // (view_candidates()).
  AutoStrategy(std::vector<GuessSources> usual, std::vector<SpeculationCandidate> candidates,
               ResolvePlan resolve);

  // Returns the present plan of requests with a plan that the engine chooses
  // (SpeculationPlan::automatic): a view's, or `usual` if no view is chosen.
  const std::shared_ptr<const SpeculationPlan>& plan(
      const std::shared_ptr<const SpeculationPlan>& usual) const {
    return present_ ? present_ : usual;
  }

  // Returns the draft sources of requests that run the usual plan.
  const GuessSources& sources() const { return sources_; }

  // Looks at the present load; call it about once a Step. Returns whether plan() has changed.
  bool look(const LiveCosts& costs, BatchLoad load, const Progress& progress);
  // Takes the outcome of one verification by `plan`: the first `accepted` of `guesses` were
  // accepted.
  void observe(const SpeculationPlan& plan, int32_t guesses, int32_t accepted);

  const ArmChoice& arms() const { return arms_; }
  // Returns the names of the arms, in order.
  std::vector<std::string> names() const;
  // Return the measurements so far, and their number.
  MeasuredArms measured() const;
  int64_t measurements() const { return measurements_; }
  // Takes the measurements of the same arms from an earlier start; call it before look().
  void recall(const MeasuredArms& measured);

 private:
  // The output of an arm since its last measurement; another arm may have run in between.
  struct Period {
    int32_t looks = 0;
    int32_t mixed_looks = 0;  // looks beside requests with fixed plans
    double tokens = 0.0;
    double predicted = 0.0;
    double predicted_rounds = 0.0;  // rounds of a view, summed over sequences
    double rounds = 0.0;            // rounds that ended with a verification
    double round_tokens = 0.0;      // tokens emitted in these rounds
    PaceSpread spread;
  };
  // The factor by which measurements beside requests with fixed plans are off, as a logarithm: the
  // mean of `count` measurements.
  struct Mixed {
    double bias = 0.0;
    double count = 0.0;
    int32_t fixed_requests = 0;  // requests with fixed plans at the last measurement
  };

  const std::vector<SpeculationCandidate>& candidates() const { return acceptance_.candidates(); }
  int32_t num_usual() const { return static_cast<int32_t>(usual_.size()); }
  int32_t arm_of(int32_t candidate) const { return num_usual() + candidate; }
  // Returns the candidate that runs; a negative number if a usual arm runs.
  int32_t candidate() const { return arms_.running() - num_usual(); }
  // Returns the expected speed-up of the usual arm over plain decoding.
  double speedup_of(const GuessSources& arm) const;
  int32_t steps_a_round() const { return gamma_ + 1; }
  // Returns whether the running arm has been measured.
  bool measure(const StepCosts& costs, const BatchLoad& load, const Progress& before,
               const Progress& now);
  // Passes on a measurement of the running arm. Returns whether it is usable.
  bool add_measured(const BatchLoad& load, const Period& ended, int32_t fixed_requests);
  // Returns whether the plan has changed.
  bool decide(const StepCosts& costs, const BatchLoad& load, bool is_measured);
  const std::shared_ptr<const SpeculationPlan>& plan_of(int32_t candidate, int32_t gamma);

  const std::vector<GuessSources> usual_;
  const ResolvePlan resolve_;
  CandidateAcceptance acceptance_;
  ArmChoice arms_;
  std::vector<Period> periods_;  // indexed by arm
  Mixed mixed_;
  // Plans of views, keyed by candidate and number of guesses per round.
  std::map<std::pair<int32_t, int32_t>, std::shared_ptr<const SpeculationPlan>> plans_;
  std::shared_ptr<const SpeculationPlan> present_;  // null: the usual one
  GuessSources sources_;
  int32_t gamma_ = 0;     // guesses per round of present_
  int32_t settling_ = 0;  // looks left that are not measured, after a change
  Progress last_;
  // The load at the last decision, and the Steps and time since then.
  BatchLoad decided_load_;
  double decoded_ = 0.0;  // seconds of decoding
  int32_t looks_since_ = 0;
  int64_t measurements_ = 0;
};

}  // namespace forerun
