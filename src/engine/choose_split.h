// The start-up profile phase (SwiftSpec §3.1): which devices for the target and which for the
// draft, or all of them for both in turn.
//
// For each split of the processors: t_target(rows) and t_draft(rows) are measured, a simulation on
// those times forecasts tokens/s (serial_tree where the models take turns; where they run side by
// side parallel_tree, whose d is r = floor(t_target / t_draft) or r + 1), and what is not far
// behind the best is tried on a few short texts, with the engine's source of guesses. The fastest
// in the trial is kept.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "engine/forecast_split.h"
#include "engine/loaded_models.h"
#include "forerun/status.h"
#include "step/step_costs.h"

namespace forerun {

struct ChosenSplit {
  std::unique_ptr<LoadedModels> models;
  StepCosts costs;
  AutoChoice plan;
  std::string report;  // a table of what was tried, lines end in '\n'
};

// `models` are both; `prompts` is what the trials continue, not empty. Every split is loaded once,
// the two best once more. A split that cannot be loaded, measured, forecast or tried is left out,
// and the log and the report say so; where none is left, the first one's failure is returned.
Result<ChosenSplit> choose_split(const ModelsToLoad& models, const std::vector<Placement>& splits,
                                 const std::vector<std::vector<int32_t>>& prompts);

}  // namespace forerun
