// Forecasts the speed of a split of the devices between target and draft from the costs of Steps on
// it: the pure half of the profile phase (choose_split.h).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "forerun/status.h"
#include "simulation/offline_runner.h"
#include "step/cost_table.h"
#include "strategies/speculation_plan.h"

namespace forerun {

struct ForecastPlan {
  AutoChoice plan;  // the plan that "auto" stands for on this split
  double tokens_per_s = 0.0;
};

std::string describe(const AutoChoice& plan);
// Tokens/s of decoding over all requests, without their first tokens.
double decoding_rate(const std::vector<OfflineResult>& results);

// Where the models run.
struct Placing {
  bool concurrent = false;  // each on devices of its own
  int32_t target_stages = 1;
};

// The plans that fit, best first, ranked by a simulation of some hundred tokens with an average
// draft. Pure. `costs` must be measured for both roles; the target's are those of all its stages
// together. Fails if run_offline() fails.
Result<std::vector<ForecastPlan>> forecast_plans(const CostTable& costs, const Placing& placing);
// The simulated tokens/s of one plan.
Result<double> forecast_tokens_per_s(const CostTable& costs, const Placing& placing,
                                     const AutoChoice& plan);

}  // namespace forerun
