#include "planner/forecast_split.h"

#include <algorithm>
#include <memory>
#include <span>
#include <utility>

#include "base/status_macros.h"
#include "simulation/simulated_executor.h"
#include "step/step_costs.h"
#include "strategies/strategy.h"

namespace forerun {
namespace {

constexpr int32_t kForecastTokens = 200;
constexpr double kOneMachine = 1e12;  // bytes per second between its stages: links take no time

StepProfile profile_of(const CostTable& costs, const Placing& placing) {
  StepProfile profile;
  profile.separate_devices = placing.concurrent;
  if (placing.target_stages > 1) {
    profile.stages = {.stages = placing.target_stages, .bytes_per_s = kOneMachine};
  }
  for (const Role role : {Role::kTarget, Role::kDraft}) {
    for (const int32_t rows : StepCosts::kKnots) {
      profile.costs.add(role, {rows, 0}, costs.at(role, rows));
    }
  }
  return profile;
}

std::vector<AutoChoice> plans_of(const Placing& placing) {
  if (!placing.concurrent) return {{.strategy = "serial_tree"}};
  if (placing.target_stages > 1) {
    return {{.strategy = "pipelined"}, {.strategy = "parallel_tree"}, {.strategy = "serial_tree"}};
  }
  return {{.strategy = "parallel_tree"}, {.strategy = "parallel_tree", .extra_draft_steps = 1}};
}

}  // namespace

std::string describe(const AutoChoice& plan) {
  if (plan.strategy != "parallel_tree") return plan.strategy;
  return plan.strategy + (plan.extra_draft_steps > 0 ? ", d = r + 1" : ", d = r");
}

double decoding_rate(const std::vector<OfflineResult>& results) {
  double tokens = 0.0;
  double seconds = 0.0;
  for (const OfflineResult& request : results) {
    tokens += static_cast<double>(request.tokens.size()) - 1.0;
    seconds += request.last_token_seconds - request.first_token_seconds;
  }
  return seconds > 0.0 ? tokens / seconds : 0.0;
}

Result<double> forecast_tokens_per_s(const CostTable& costs, const Placing& placing,
                                     const AutoChoice& plan) {
  SimulatedExecutorOptions options;
  options.profile = profile_of(costs, placing);
  CostTable told = costs;
  if (placing.target_stages > 1) {
    StepCosts in_stages = options.profile.costs;
    in_stages.set_stages({.count = placing.target_stages});
    told = in_stages.table();
  }
  options.acceptance = std::make_shared<ModelledAcceptance>(AcceptanceModel{});
  SimulatedExecutor executor(std::move(options));
  OfflineRequest request;
  request.prompt = {1, 2, 3, 4};
  request.new_tokens = kForecastTokens;
  OfflineOptions offline_options;
  offline_options.clock = [&executor] { return executor.now_seconds(); };
  FORERUN_ASSIGN_OR_RETURN(const auto speculation, resolve_speculation({}, {}, plan));
  offline_options.make_strategy = [&](size_t) {
    return speculation->make_strategy({.shared = nullptr, .costs = told});
  };
  const auto results = run_offline(executor, std::span(&request, 1), offline_options);
  if (!results.ok()) return results.status().with_context("forecast of " + describe(plan));
  return decoding_rate(*results);
}

Result<std::vector<ForecastPlan>> forecast_plans(const CostTable& costs, const Placing& placing) {
  std::vector<ForecastPlan> forecasts;
  for (const AutoChoice& plan : plans_of(placing)) {
    FORERUN_ASSIGN_OR_RETURN(const double tokens_per_s,
                             forecast_tokens_per_s(costs, placing, plan));
    forecasts.push_back({plan, tokens_per_s});
  }
  std::stable_sort(
      forecasts.begin(), forecasts.end(),
      [](const ForecastPlan& a, const ForecastPlan& b) { return a.tokens_per_s > b.tokens_per_s; });
  return forecasts;
}

}  // namespace forerun
