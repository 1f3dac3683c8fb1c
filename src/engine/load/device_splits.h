// The splits of a machine's processors between target and draft. The planner tries them by loading
// both models on one split at a time.
#pragma once

#include <memory>
#include <vector>

#include "engine/load/device_spec.h"
#include "engine/load/loaded_models.h"
#include "engine/load/models_to_load.h"
#include "exec/real_executor.h"
#include "planner/choose_split.h"

namespace forerun {

// Returns `whole`, where both models run sequentially on the same processors, followed by its
// splits: the draft gets the last few devices of a tensor-parallel group, or the last few
// processors of a single device. Up to 8 devices or processors are split at every number, more at
// powers of two and in half.
std::vector<Placement> splits_of(const Placement& whole);

// Loads both models of `to_load`, which must outlive the object.
class LoadedSplits : public SplitModels {
 public:
  LoadedSplits(const ModelsToLoad& to_load, std::vector<Placement> placements)
      : to_load_(to_load), placements_(std::move(placements)) {}

  // Returns the placements in the form that choose_split() takes, in the same order.
  std::vector<Split> splits() const;
  Status load(size_t index) override;
  Result<StepCosts> measure() override;
  Executor& executor() override { return *executor_; }
  double now_seconds() const override;

  // Returns the models that were loaded last; null if no load() has succeeded.
  std::unique_ptr<LoadedModels> take_models();

 private:
  const ModelsToLoad& to_load_;
  const std::vector<Placement> placements_;
  std::unique_ptr<LoadedModels> models_;
  std::unique_ptr<RealExecutor> executor_;  // executor over models_
};

struct TriedSplits {
  ChosenSplit chosen;
  std::unique_ptr<LoadedModels> models;  // loaded on the chosen split
};

// Runs choose_split() over splits_of(whole), with a few short texts and the engine's draft source.
Result<TriedSplits> try_splits(const ModelsToLoad& to_load, const Placement& whole,
                               const ModelFacts& facts);

}  // namespace forerun
