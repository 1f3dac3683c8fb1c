// Forecasts the speed of a split of the devices between target and draft from the costs of Steps on
// it: the part of the profile phase (choose_split.h) that runs no models.
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
  AutoChoice plan;  // the plan that "auto" resolves to on this split
  double tokens_per_s = 0.0;
};

std::string describe(const AutoChoice& plan);
// Returns the tokens/s of decoding over all requests, without their first tokens.
double decoding_rate(const std::vector<OfflineResult>& results);

// The placement of the models.
struct Placing {
  bool concurrent = false;  // each model runs on devices of its own
  int32_t target_stages = 1;
};

// Returns the plans that fit, best first, ranked by a simulation of some hundred tokens with an
// average draft. Pure. `costs` must be measured for both roles; the target's are those of all its
// stages together. Fails if run_offline() fails.
Result<std::vector<ForecastPlan>> forecast_plans(const CostTable& costs, const Placing& placing);
// Returns the simulated tokens/s of one plan.
Result<double> forecast_tokens_per_s(const CostTable& costs, const Placing& placing,
                                     const AutoChoice& plan);

}  // namespace forerun
