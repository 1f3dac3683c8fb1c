// Draft models that were made for a shorter context than the engine's: the engine keeps its own
// context, and the draft a window of each request.
#pragma once

#include <string>

#include "engine/load/opened_model.h"
#include "forerun/engine.h"
#include "forerun/status.h"

namespace forerun {

// Where the draft's own context is shorter than what the options, or else the target, ask for:
// narrows EngineOptions::draft_window to what the draft was made for and extends its positions. A
// draft whose layers have windows of their own keeps them. Returns a line for the log that says so,
// empty where there is nothing to do. Options and models must have been checked against each other.
// kInvalidArgument where the draft's context is too short for a window.
Result<std::string> fit_draft_context(EngineOptions& options, OpenedModels& opened);

}  // namespace forerun
