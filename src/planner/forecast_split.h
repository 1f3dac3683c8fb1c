// What a split of the devices between target and draft promises, from what Steps cost on it: the
// pure half of the profile phase (choose_split.h).
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
  AutoChoice plan;  // what "auto" is to stand for there
  double tokens_per_s = 0.0;
};

std::string describe(const AutoChoice& plan);
// Tokens/s of decoding over all requests; their first tokens aside.
double decoding_rate(const std::vector<OfflineResult>& results);

// Where the models run.
struct Placing {
  bool concurrent = false;  // each on devices of its own
  int32_t target_stages = 1;
};

// The plans that fit, best first, by simulation of some hundred tokens with an average draft. Pure.
// `costs` is measured for both roles, the target's of all stages together. Fails as run_offline()
// does.
Result<std::vector<ForecastPlan>> forecast_plans(const CostTable& costs, const Placing& placing);
// One of them.
Result<double> forecast_tokens_per_s(const CostTable& costs, const Placing& placing,
                                     const AutoChoice& plan);

}  // namespace forerun
