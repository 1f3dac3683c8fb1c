// Chooses how requests that leave their strategy to the engine speculate. The arms are
// - what `auto` stands for on this machine, by all of its sources of guesses, by some, or by none,
//   which is plain decoding (engine/load/source_arms.h). Requests take a change at their next round
//   and keep their strategy; how well their own guesses do decides within an arm;
// - the target drafting for itself through a view of its KV cache (sparse_self; MagicDec), a
//   candidate an arm, for which requests change their strategy.
// The cost model predicts what each brings at the present load, from how often guesses have lately
// been right; tokens over wall time correct it, by load (planner/arm_choice.h).
//
// Requests by plans of their own make Steps longer or shorter than the load alone says. Beside them
// arms are compared with the chosen one, which is measured between trials, whatever the factor is
// by which it is off.
//
// The loop's thread only.
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
  // Output so far of all requests whose plan the engine chooses.
  struct Progress {
    int64_t tokens = 0;
    double seconds = 0.0;  // seconds of a monotonic clock
    // Those that decode now. Others of the load decode by plans of their own.
    int32_t sequences = 0;
    bool is_measurable = true;  // whether neither target nor draft reads prompts
    // What recent rounds could be expected to gain over plain decoding, as requests that choose by
    // costs tell (SharedAcceptance): by guesses of the text, and by those of the draft beside.
    double speedup_by_text = 1.0;
    double speedup_by_draft = 1.0;
  };

  // `usual` (source_arms()): not empty. `resolve` accepts every candidate (view_candidates()).
  AutoStrategy(std::vector<GuessSources> usual, std::vector<SpeculationCandidate> candidates,
               ResolvePlan resolve);

  // The present plan of requests whose plan the engine chooses (SpeculationPlan::automatic): a
  // view's, or `usual` where none is chosen.
  const std::shared_ptr<const SpeculationPlan>& plan(
      const std::shared_ptr<const SpeculationPlan>& usual) const {
    return present_ ? present_ : usual;
  }

  // The sources from which requests that run the usual plan take guesses.
  const GuessSources& sources() const { return sources_; }

  // Looks at what decodes now; call it about once a Step. Returns whether plan() has changed.
  bool look(const LiveCosts& costs, BatchLoad load, const Progress& progress);
  // Takes the outcome of one verification by `plan`: the first `accepted` of `guesses` were right.
  void observe(const SpeculationPlan& plan, int32_t guesses, int32_t accepted);

  const ArmChoice& arms() const { return arms_; }
  // The arms in order, by name.
  std::vector<std::string> names() const;
  // What has been measured so far, and how often anything has been.
  MeasuredArms measured() const;
  int64_t measurements() const { return measurements_; }
  // Takes what an earlier start has measured of the same arms; call it before look().
  void recall(const MeasuredArms& measured);

 private:
  // What an arm has decoded since it was measured last; it may have been left in between.
  struct Period {
    int32_t looks = 0;
    int32_t mixed_looks = 0;  // looks beside requests by plans of their own
    double tokens = 0.0;
    double predicted = 0.0;
    double predicted_rounds = 0.0;  // rounds of a view, summed over sequences
    double rounds = 0.0;            // rounds that ended with a verification of their guesses
    double round_tokens = 0.0;      // tokens that these rounds brought
    PaceSpread spread;
  };
  // The factor by which measurements beside requests with plans of their own are off, as a
  // logarithm: the mean of so many measurements.
  struct Mixed {
    double bias = 0.0;
    double count = 0.0;
    int32_t fixed_requests = 0;  // requests with plans of their own, when it was measured last
  };

  const std::vector<SpeculationCandidate>& candidates() const { return acceptance_.candidates(); }
  int32_t num_usual() const { return static_cast<int32_t>(usual_.size()); }
  int32_t arm_of(int32_t candidate) const { return num_usual() + candidate; }
  // The candidate whose arm runs; below 0, a usual arm runs.
  int32_t candidate() const { return arms_.running() - num_usual(); }
  // What the usual arm is expected to gain over plain decoding.
  double speedup_of(const GuessSources& arm) const;
  int32_t steps_a_round() const { return gamma_ + 1; }
  // Returns whether the running arm has been measured.
  bool measure(const StepCosts& costs, const BatchLoad& load, const Progress& before,
               const Progress& now);
  // Hands a measurement of the running arm on. Returns whether it tells anything.
  bool add_measured(const BatchLoad& load, const Period& ended, int32_t fixed_requests);
  // Returns whether the plan has changed.
  bool decide(const StepCosts& costs, const BatchLoad& load, bool is_measured);
  const std::shared_ptr<const SpeculationPlan>& plan_of(int32_t candidate, int32_t gamma);

  const std::vector<GuessSources> usual_;
  const ResolvePlan resolve_;
  CandidateAcceptance acceptance_;
  ArmChoice arms_;
  std::vector<Period> periods_;  // by arm
  Mixed mixed_;
  // Plans of views, by candidate and number of guesses a round.
  std::map<std::pair<int32_t, int32_t>, std::shared_ptr<const SpeculationPlan>> plans_;
  std::shared_ptr<const SpeculationPlan> present_;  // null: the usual one
  GuessSources sources_;
  int32_t gamma_ = 0;     // guesses of a round of present_
  int32_t settling_ = 0;  // looks that are not measured yet
  Progress last_;
  // The load at which it was decided last, and what has passed since.
  BatchLoad decided_load_;
  double decoded_ = 0.0;  // seconds of decoding
  int32_t looks_since_ = 0;
  int64_t measurements_ = 0;
};

}  // namespace forerun
