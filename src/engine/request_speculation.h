// How a request is to speculate on this engine: its own options or the engine's, with "auto" made
// into what fits the devices and what was measured.
#pragma once

#include <cstdint>
#include <string>

#include "forerun/engine.h"
#include "strategies/make_strategy.h"

namespace forerun {

// What an engine knows that bears on it. Before the models are opened: the options alone.
struct SpeculationContext {
  SpeculationOptions defaults;  // of requests that say nothing
  bool has_draft_model = false;
  bool trace = false;  // rounds are recorded
  // Each model runs on a thread of its own.
  bool side_by_side = false;
  int32_t target_vocab = 0;
  int32_t draft_vocab = 0;
  // Where the draft model cannot pay: what guesses instead; else empty. Both models in turn.
  std::string planned_source;
  int32_t extra_draft_steps = 0;  // of parallel_tree, beyond r, where it was chosen by trial
};

// Not checked: check_strategy_options() does.
StrategyOptions strategy_options(const SpeculationContext& context, const Request& request);

}  // namespace forerun
