// What requests that leave their strategy to the engine speculate with at the present load: what
// `auto` stands for on this machine, or, where a large batch of long contexts makes reading the KV
// cache what a Step waits for, the target itself as a draft that reads a view of its cache
// (sparse_self; MagicDec). Decided anew as the batch, its contexts and what is seen of guesses
// change; requests follow while they run.
//
// Predictions choose, measurements decide: a view is tried only where the usual way has been
// measured at this load, and as long as the load is about the same it stays until it is seen to
// bring no more tokens a second. Then no view is tried for a while, which doubles with every trial
// that fails at such a load.
//
// The loop's thread only.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "engine/view_candidates.h"
#include "exec/live_costs.h"
#include "planner/speculation_chooser.h"
#include "strategies/speculation_plan.h"

namespace forerun {

class AutoStrategy {
 public:
  // All requests together, up to now.
  struct Progress {
    int64_t tokens = 0;
    double seconds = 0.0;  // of a clock that runs on
  };

  // `resolve` takes every candidate (view_candidates()).
  AutoStrategy(std::vector<SpeculationCandidate> candidates, ResolvePlan resolve);

  // The plan that a request now runs whose plan the engine chooses (SpeculationPlan::automatic): a
  // view's, or `usual` where none is chosen.
  const std::shared_ptr<const SpeculationPlan>& plan(
      const std::shared_ptr<const SpeculationPlan>& usual) const {
    return present_ ? present_ : usual;
  }

  // Looks at what decodes now; call it about once a Step. True where plan() has become another one.
  bool look(const LiveCosts& costs, BatchLoad load, const Progress& progress);
  // One verification by the present plan: of `guesses` the first `accepted` were right.
  void observe(const SpeculationPlan& plan, int32_t guesses, int32_t accepted);

 private:
  // Tokens a second over some looks in a row at about one load.
  struct Meter {
    BatchLoad load;
    Progress begin;
    int32_t looks = 0;
    double rate(const Progress& now) const;
  };
  // How long no view is tried after one that was of no use.
  struct Backoff {
    int64_t looks = 0;  // so long at about this load, elsewhere as after a first failure; 0: none
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
  // By candidate and guesses.
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
