// The ways to divide a machine's processors between target and draft, which the planner tries by
// loading both models on one of them at a time.
#pragma once

#include <memory>
#include <vector>

#include "engine/load/device_spec.h"
#include "engine/load/loaded_models.h"
#include "engine/load/models_to_load.h"
#include "exec/real_executor.h"
#include "planner/choose_split.h"

namespace forerun {

// `whole`, where both models run on the same processors one after the other, then the ways to split
// it: the draft gets the last few devices of a tensor-parallel group, or the last few processors of
// a single device. Up to 8 devices or processors are split at every number, more of them at powers
// of two and in half.
std::vector<Placement> splits_of(const Placement& whole);

// Loads both models of `to_load`, which must outlive it.
class LoadedSplits : public SplitModels {
 public:
  LoadedSplits(const ModelsToLoad& to_load, std::vector<Placement> placements)
      : to_load_(to_load), placements_(std::move(placements)) {}

  // The placements as choose_split() takes them, in the same order.
  std::vector<Split> splits() const;
  Status load(size_t index) override;
  Result<StepCosts> measure() override;
  Executor& executor() override { return *executor_; }
  double now_seconds() const override;

  // The models that were loaded last; null where no load() has succeeded.
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

// choose_split() over splits_of(whole), with a few short texts and the engine's source of guesses.
Result<TriedSplits> try_splits(const ModelsToLoad& to_load, const Placement& whole,
                               const ModelFacts& facts);

}  // namespace forerun
