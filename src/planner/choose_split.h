// The start-up profile phase (SwiftSpec §3.1): which devices for the target and which for the
// draft, or all of them for both sequentially.
//
// For each split of the processors: t_target(rows) and t_draft(rows) are measured, a simulation on
// those times forecasts tokens/s (serial_tree where the models take turns; where they run side by
// side parallel_tree, whose d is r = floor(t_target / t_draft) or r + 1), and what is not far
// behind the best is tried on a few short texts, with the engine's source of guesses. The fastest
// in the trial is kept.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "exec/executor.h"
#include "forerun/sampling_params.h"
#include "forerun/status.h"
#include "planner/forecast_split.h"
#include "step/step_costs.h"
#include "strategies/speculation_plan.h"

namespace forerun {

// One way to lay both models over the devices.
struct Split {
  std::string name;         // for the report and the log
  bool concurrent = false;  // each model on devices of its own
};

// Both models, laid over the devices in one way at a time: what it takes to measure and try a
// split. The engine implements it.
class SplitModels {
 public:
  virtual ~SplitModels() = default;
  // Lays the models out as splits[index] says; what was loaded before is gone, whatever the
  // outcome.
  virtual Status load(size_t index) = 0;
  // What Steps of either model cost as they are loaded now. Called before a request has run.
  virtual Result<StepCosts> measure() = 0;
  // Runs requests on what is loaded. Lives until the next load() or measure().
  virtual Executor& executor() = 0;
  // The clock that its Steps take time by.
  virtual double now_seconds() const = 0;
};

struct SplitTrials {
  std::vector<Split> splits;                  // not empty; the first one's failure is told
  std::vector<std::vector<int32_t>> prompts;  // what the trials continue, not empty
  std::string source;                         // of guesses, as requests will be run; may be empty
  ModelFacts models;
  // Gets the fraction that is done; may be empty.
  std::function<void(double)> on_progress;
};

struct ChosenSplit {
  size_t index = 0;  // of the split, which is loaded
  StepCosts costs;
  AutoChoice plan;
  std::string report;  // a table of what was tried, lines end in '\n'
};

// Every split is loaded once, the two best once more. A split that cannot be loaded, measured,
// forecast or tried is left out, and the log and the report say so; where none is left, the first
// one's failure is returned.
Result<ChosenSplit> choose_split(SplitModels& models, const SplitTrials& trials);

}  // namespace forerun
