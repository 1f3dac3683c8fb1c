// Adapts the engine to draft models with a shorter context than its own: the engine keeps its
// context, and the draft keeps a window of each request.
#pragma once

#include <string>

#include "engine/load/opened_model.h"
#include "forerun/engine.h"
#include "forerun/status.h"

namespace forerun {

// If the draft's own context is shorter than the one that the options, or else the target, ask for,
// narrows EngineOptions::draft_window to the draft's context and extends its positions. A draft
// with sliding-window layers keeps their windows. Returns a line for the log; empty if nothing
// changed. Options and models must have been checked against each other. Fails with
// kInvalidArgument if the draft's context is too short for a window.
Result<std::string> fit_draft_context(EngineOptions& options, OpenedModels& opened);

}  // namespace forerun
