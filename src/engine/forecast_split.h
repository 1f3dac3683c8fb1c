// What a split of the devices between target and draft promises, from what Steps cost on it: the
// pure half of the profile phase (choose_split.h).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "engine/device_spec.h"
#include "forerun/status.h"
#include "simulation/play.h"
#include "step/cost_table.h"
#include "strategies/make_strategy.h"

namespace forerun {

// How a split is used.
struct SplitPlan {
  std::string strategy;           // "serial_tree" or "parallel_tree", shape adaptive
  int32_t extra_draft_steps = 0;  // d beyond r: 0 or 1
};

struct ForecastPlan {
  SplitPlan plan;
  double tokens_per_s = 0.0;
};

std::string describe(const SplitPlan& plan);
// With the strategy's own choice of a source; trials put the engine's in its place.
StrategyOptions strategy_options(const SplitPlan& plan);
// Tokens/s of decoding over all requests; their first tokens aside.
double decoding_rate(const std::vector<PlayedRequest>& played);

// The plans that fit, best first, by simulation of some hundred tokens with an average draft. Pure.
// `costs` is measured for both roles. Fails as play() does.
Result<std::vector<ForecastPlan>> forecast_plans(const CostTable& costs, bool side_by_side);
// One of them.
Result<double> forecast_tokens_per_s(const CostTable& costs, bool side_by_side,
                                     const SplitPlan& plan);

// `whole`, both models in turn on processors, then what it can be split into: the draft gets the
// last few devices of a tensor-parallel group, or of a single device the last few processors. Of up
// to 8 of them every number, of more powers of two and the half.
std::vector<Placement> splits_of(const Placement& whole);

}  // namespace forerun
