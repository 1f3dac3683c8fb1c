// The start-up profile phase (SwiftSpec §3.1): decides which devices run the target and which the
// draft, or whether both models run sequentially on all devices.
//
// For each split of the processors, t_target(rows) and t_draft(rows) are measured, and a simulation
// with those times forecasts tokens/s: of serial_tree if the models take turns, of parallel_tree if
// they run concurrently, with d = r or r + 1 for r = floor(t_target / t_draft). Plans with a
// forecast close to the best are tried on a few short texts, with the engine's draft source. The
// fastest plan in these trials is kept.
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

// One placement of both models on the devices.
struct Split {
  std::string name;         // name in the report and the log
  bool concurrent = false;  // each model runs on devices of its own
};

// Both models, loaded on the devices in one split at a time, to be measured and tried. The engine
// implements it.
class SplitModels {
 public:
  virtual ~SplitModels() = default;
  // Loads the models for splits[index]. Unloads the previous ones, also if this fails.
  virtual Status load(size_t index) = 0;
  // Measures the Steps of both models as they are loaded now. Called before any request has run.
  virtual Result<StepCosts> measure() = 0;
  // Returns the executor of the loaded models. It lives until the next load() or measure().
  virtual Executor& executor() = 0;
  // Returns the time of the clock of the executor's Steps.
  virtual double now_seconds() const = 0;
};

struct SplitTrials {
  std::vector<Split> splits;  // not empty; if all fail, the first one's failure is returned
  std::vector<std::vector<int32_t>> prompts;  // texts that the trials continue; not empty
  std::string source;                         // draft source of later requests; may be empty
  ModelFacts models;
  // Called with the fraction that is done; may be empty.
  std::function<void(double)> on_progress;
};

struct ChosenSplit {
  size_t index = 0;  // index of the split that is loaded
  StepCosts costs;
  AutoChoice plan;
  std::string report;  // a table of the trials; lines end in '\n'
};

// Loads every split once, and the two best once more. A split that cannot be loaded, measured,
// forecast or tried is excluded, and the log and the report say so. If none remains, returns the
// failure of the first split.
Result<ChosenSplit> choose_split(SplitModels& models, const SplitTrials& trials);

}  // namespace forerun
