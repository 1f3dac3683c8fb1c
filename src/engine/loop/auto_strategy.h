// Chooses how requests speculate that leave their strategy to the engine: usually what `auto`
// stands for on this machine; where a large batch of long contexts makes a Step wait for reading
// the KV cache, the target drafts for itself through a view of its cache (sparse_self; MagicDec).
// The choice is made anew as the batch, its contexts and the acceptance change; running requests
// follow it.
//
// Predictions propose, measurements decide: a view is tried only after the usual plan has been
// measured at this load. While the load stays about the same, the view is kept until measurements
// show that it brings no more tokens a second. Then no view is tried for a while, which doubles
// with every failed trial at such a load.
//
// The loop's thread only.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "engine/load/view_candidates.h"
#include "exec/live_costs.h"
#include "planner/speculation_chooser.h"
#include "strategies/speculation_plan.h"

namespace forerun {

class AutoStrategy {
 public:
  // Output of all requests together so far.
  struct Progress {
    int64_t tokens = 0;
    double seconds = 0.0;  // of a monotonic clock
  };

  // `resolve` accepts every candidate (view_candidates()).
  AutoStrategy(std::vector<SpeculationCandidate> candidates, ResolvePlan resolve);

  // The plan that a request now runs whose plan the engine chooses (SpeculationPlan::automatic): a
  // view's, or `usual` where none is chosen.
  const std::shared_ptr<const SpeculationPlan>& plan(
      const std::shared_ptr<const SpeculationPlan>& usual) const {
    return present_ ? present_ : usual;
  }

  // Looks at what decodes now; call it about once a Step. Returns whether plan() has changed.
  bool look(const LiveCosts& costs, BatchLoad load, const Progress& progress);
  // Takes the outcome of one verification by `plan`: the first `accepted` of `guesses` were right.
  void observe(const SpeculationPlan& plan, int32_t guesses, int32_t accepted);

 private:
  // Tokens a second over consecutive looks at about the same load.
  struct Meter {
    BatchLoad load;
    Progress begin;
    int32_t looks = 0;
    double rate(const Progress& now) const;
  };
  // How long no view is tried after one that was of no use.
  struct Backoff {
    int64_t looks = 0;  // length at about `load`; at other loads that of a first failure; 0: none
    BatchLoad load;
    int64_t begin = 0;  // of looks_
  };

  const std::shared_ptr<const SpeculationPlan>& plan_of(int32_t candidate, int32_t gamma);
  bool change_to(std::shared_ptr<const SpeculationPlan> next, int32_t candidate);
  // Takes the look into account; false where the present view turns out to be of no use.
  bool measure(const BatchLoad& load, const Progress& progress);
  void back_off(const BatchLoad& load);
  bool backs_off(const BatchLoad& load) const;

  const ResolvePlan resolve_;
  SpeculationChooser chooser_;
  // By candidate and number of guesses a round.
  std::map<std::pair<int32_t, int32_t>, std::shared_ptr<const SpeculationPlan>> plans_;
  std::shared_ptr<const SpeculationPlan> present_;  // null: the usual one
  int32_t candidate_ = -1;                          // of present_
  Meter meter_;                                     // of what runs at present
  BatchLoad usual_load_;                            // at which the usual way has been measured
  double usual_rate_ = 0.0;                         // and what it reached; 0: not yet
  bool proven_ = false;  // this view was faster at this load when it was measured last
  int64_t looks_ = 0;
  Backoff backoff_;
};

}  // namespace forerun
