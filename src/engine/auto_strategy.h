// What requests that leave their strategy to the engine speculate with at the present load: what
// `auto` stands for on this machine, or, where a large batch of long contexts makes reading the KV
// cache what a Step waits for, the target itself as a draft that reads a view of its cache
// (sparse_self; MagicDec). Decided anew as the batch, its contexts and what is seen of guesses
// change; requests follow while they run.
//
// The loop's thread only.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "exec/live_costs.h"
#include "forerun/speculation_options.h"
#include "forerun/status.h"
#include "planner/speculation_chooser.h"
#include "strategies/speculation_plan.h"

namespace forerun {

class AutoStrategy {
 public:
  using Resolve =
      std::function<Result<std::shared_ptr<const SpeculationPlan>>(const SpeculationOptions&)>;

  // The views of its KV that a target of these facts may draft with are those that `resolve` takes.
  AutoStrategy(const ModelFacts& models, const Resolve& resolve);

  // Of a request whose plan is the engine's choice (SpeculationPlan::automatic) and would else be
  // `usual`: what it runs at present.
  const std::shared_ptr<const SpeculationPlan>& plan(
      const std::shared_ptr<const SpeculationPlan>& usual) const {
    return present_ ? present_ : usual;
  }

  // Looks at what decodes now; call it about once a Step. `usual_speedup`: what the usual way
  // reaches over plain decoding, 1 or more. True where plan() has become another one.
  bool look(const LiveCosts& costs, BatchLoad load, double usual_speedup);
  // One verification by the present plan: of `guesses` the first `accepted` were right.
  void observe(const SpeculationPlan& plan, int32_t guesses, int32_t accepted);

 private:
  std::shared_ptr<const SpeculationPlan> plan_of(int32_t candidate, int32_t gamma);

  const Resolve resolve_;
  std::vector<SpeculationOptions> options_;  // of the candidates
  SpeculationChooser chooser_;
  std::map<std::pair<int32_t, int32_t>, std::shared_ptr<const SpeculationPlan>> plans_;
  std::shared_ptr<const SpeculationPlan> present_;  // null: the usual one
  int32_t candidate_ = -1;                          // of present_
};

}  // namespace forerun
