// Runs a strategy against simulated models in virtual time. Tests and tuning of the adaptive rule
// use it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "simulation/simulated_request.h"
#include "strategies/acceptance.h"
#include "strategies/strategy_table.h"

namespace forerun {

// Returns costs where a plain Step takes 1 ms, and 8 rows take `eight_rows` times as long as one,
// on both models.
inline CostTable simulated_costs(double draft_ratio, double eight_rows) {
  CostTable costs;
  for (int32_t rows = 1; rows <= CostTable::kMaxRows; ++rows) {
    const double more = 1.0 + (eight_rows - 1.0) * (rows - 1) / 7.0;
    costs.seconds[0][static_cast<size_t>(rows)] = static_cast<float>(1e-3 * more);
    costs.seconds[1][static_cast<size_t>(rows)] = static_cast<float>(1e-3 * draft_ratio * more);
  }
  return costs;
}

// Returns costs in milliseconds of a Step of up to 8 rows; each further row adds 3%.
inline CostTable flat_costs(double target_ms, double draft_ms) {
  CostTable costs;
  for (int32_t rows = 1; rows <= CostTable::kMaxRows; ++rows) {
    const double more = rows <= 8 ? 1.0 : 1.0 + 0.03 * (rows - 8);
    costs.seconds[0][static_cast<size_t>(rows)] = static_cast<float>(1e-3 * target_ms * more);
    costs.seconds[1][static_cast<size_t>(rows)] = static_cast<float>(1e-3 * draft_ms * more);
  }
  return costs;
}

struct Simulated {
  double speedup = 0.0;          // speed-up over plain decoding at the same costs
  double tokens_per_step = 0.0;  // tokens per Step of the target
};

inline constexpr int32_t kSimulatedPromptTokens = 5;

// Makes a request for `tokens` tokens after a short prompt.
inline SimulatedRequest simulated_request(const SpeculationOptions& options,
                                          const AcceptanceModel& models, const CostTable& costs,
                                          int32_t tokens,
                                          std::shared_ptr<SharedAcceptance> shared) {
  return SimulatedRequest(resolve_speculation(options).value()->make_strategy(
                              {.shared = std::move(shared), .costs = costs}),
                          models, {1, 2, 3, 4, 5}, kSimulatedPromptTokens + tokens);
}

// `seconds` is the time of all tokens except the first, which comes with the prefill.
inline Simulated summarize(const SimulatedRequest& request, const CostTable& costs,
                           double seconds) {
  const auto decoded = static_cast<double>(request.emitted().size()) - 1.0;
  return {decoded * costs.at(Role::kTarget, 1) / seconds,
          decoded / static_cast<double>(request.stats().target_steps)};
}

// Simulates a request whose target and draft take turns on the same devices.
inline Simulated simulate(const SpeculationOptions& options, const AcceptanceModel& models,
                          const CostTable& costs, int32_t tokens,
                          std::shared_ptr<SharedAcceptance> shared = nullptr) {
  SimulatedRequest request = simulated_request(options, models, costs, tokens, std::move(shared));
  request.run_to_end();
  return summarize(request, costs, request.executor().seconds(costs));
}

// Does what simulate() does, but target and draft run concurrently, each on its own devices. The
// result of a Step reaches the strategy when the Step ends, so a strategy that waits for it loses
// time.
inline Simulated simulate_concurrent(const SpeculationOptions& options,
                                     const AcceptanceModel& models, const CostTable& costs,
                                     int32_t tokens,
                                     std::shared_ptr<SharedAcceptance> shared = nullptr) {
  SimulatedRequest request = simulated_request(options, models, costs, tokens, std::move(shared));
  double now = 0.0;
  struct Running {
    double ends = 0.0;
    WorkResult result;
  };
  std::optional<Running> running[kNumRoles];
  while (static_cast<int32_t>(request.emitted().size()) < tokens) {
    for (Role role : {Role::kTarget, Role::kDraft}) {
      auto& lane = running[static_cast<size_t>(role)];
      while (!lane && request.has_work(role)) {
        const size_t before = request.executor().steps().size();
        auto result = request.run(role);
        const auto& steps = request.executor().steps();
        const bool counts = steps.size() > before;  // prefill is free, as in simulate()
        const double seconds = counts ? costs.at(role, steps.back().second) : 0.0;
        if (result) lane = Running{now + seconds, std::move(*result)};
      }
    }
    std::optional<Running>* next = nullptr;
    for (auto& lane : running) {
      if (lane && (next == nullptr || lane->ends < (*next)->ends)) next = &lane;
    }
    if (next == nullptr) break;
    now = (*next)->ends;
    const WorkResult result = std::move((*next)->result);
    next->reset();
    request.hand_over(result);
  }
  return summarize(request, costs, now);
}

// Returns fixed settings that the adaptive rule is compared with.
inline std::vector<SpeculationOptions> fixed_settings() {
  std::vector<SpeculationOptions> settings;
  SpeculationOptions options{.strategy = "serial_tree"};
  options.shape = "chain";
  for (int32_t depth : {1, 2, 3, 4, 5, 6, 8}) {
    options.draft_depth = depth;
    settings.push_back(options);
  }
  options.shape = "best";
  for (int32_t rows : {4, 8, 16}) {
    for (int32_t width : {1, 2, 4}) {
      for (int32_t depth : {2, 3, 4, 6}) {
        options.verify_tokens = rows;
        options.draft_width = width;
        options.draft_depth = depth;
        settings.push_back(options);
      }
    }
  }
  return settings;
}

}  // namespace forerun
