// Plays a strategy against made-up models in virtual time: what the adaptive rule is tested and
// tuned with.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "simulation/fake_executor.h"
#include "strategies/acceptance.h"
#include "strategies/strategy_table.h"

namespace forerun {

// How often the target's token lies within the draft's best 1, 2, 4 and 8 guesses.
struct SimulatedText {
  std::string name;
  double within_1, within_2, within_4, within_8;
  double spread = 0.7;
  double honesty = 1.0;

  FakeModels models(uint64_t seed) const {
    FakeModels models;
    models.seed = seed;
    models.vocab = 5000;
    models.draft_vocab = 5000;
    models.rank_hit = {within_1, within_2 - within_1};
    for (int i = 0; i < 2; ++i) models.rank_hit.push_back((within_4 - within_2) / 2);
    for (int i = 0; i < 4; ++i) models.rank_hit.push_back((within_8 - within_4) / 4);
    models.spread = spread;
    models.honesty = honesty;
    return models;
  }
};

// The demo pair's text, of held-out, sampled and looping kinds, and a draft that knows nothing.
inline std::vector<SimulatedText> simulated_texts() {
  return {
      {"code greedy", 0.67, 0.79, 0.86, 0.91},   {"prose greedy", 0.55, 0.69, 0.80, 0.87},
      {"code loops", 0.89, 0.94, 0.96, 0.97},    {"code sampled", 0.60, 0.69, 0.74, 0.78},
      {"prose sampled", 0.34, 0.46, 0.57, 0.67}, {"overconfident", 0.40, 0.50, 0.6, 0.7, 0.7, 3.0},
      {"useless draft", 0.03, 0.05, 0.08, 0.12}};
}

// A plain step takes 1 ms; 8 rows take `eight_rows` times as long as one, on both models.
inline CostTable simulated_costs(double draft_ratio, double eight_rows) {
  CostTable costs;
  for (int32_t rows = 1; rows <= CostTable::kMaxRows; ++rows) {
    const double more = 1.0 + (eight_rows - 1.0) * (rows - 1) / 7.0;
    costs.seconds[0][static_cast<size_t>(rows)] = static_cast<float>(1e-3 * more);
    costs.seconds[1][static_cast<size_t>(rows)] = static_cast<float>(1e-3 * draft_ratio * more);
  }
  return costs;
}

// Milliseconds of a Step of up to 8 rows; further rows cost 3% each.
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
  double speedup = 0.0;          // over plain decoding at the same costs
  double tokens_per_step = 0.0;  // of the target
};

// A started request after a short prompt, on an executor of its own.
struct SimulatedRequest {
  SimulatedRequest(const SpeculationOptions& options, const FakeModels& models,
                   const CostTable& costs, int32_t tokens, std::shared_ptr<SharedAcceptance> shared)
      : strategy(resolve_speculation(options).value()->make_strategy(
            {.shared = std::move(shared), .costs = costs})),
        executor(models, {.max_tokens = kPromptTokens + tokens}) {
    const std::vector<TokenId> prompt = {1, 2, 3, 4, 5};
    strategy->start(
        {.sequence = 1, .tokens = prompt, .max_tokens = kPromptTokens + tokens, .sampling = {}},
        out);
  }

  static constexpr int32_t kPromptTokens = 5;
  std::unique_ptr<Strategy> strategy;
  FakeExecutor executor;
  StrategyOutput out;
};

// One request of `tokens` tokens after a short prompt; `texts` take turns every tokens /
// texts.size() tokens. Executors of the parts share nothing but the strategy's view of the
// sequence.
inline Simulated simulate(const SpeculationOptions& options, const FakeModels& models,
                          const CostTable& costs, int32_t tokens,
                          std::shared_ptr<SharedAcceptance> shared = nullptr) {
  SimulatedRequest request(options, models, costs, tokens, std::move(shared));
  auto& [strategy, executor, out] = request;
  int64_t emitted = 0;
  while (true) {
    for (WorkItem& item : out.work) executor.submit(std::move(item));
    emitted += static_cast<int64_t>(out.tokens.size());
    out.clear();
    if (executor.idle()) break;
    const Role role = executor.has_work(Role::kTarget) ? Role::kTarget : Role::kDraft;
    if (const auto result = executor.run(role)) strategy->on_result(*result, out);
  }
  const auto decoded = static_cast<double>(emitted - 1);
  const StrategyStats stats = strategy->stats();
  return {decoded * costs.at(Role::kTarget, 1) / executor.seconds(costs),
          decoded / static_cast<double>(stats.target_steps)};
}

// As simulate(), but target and draft run side by side, each on devices of its own: a Step of
// either takes its time, and its result reaches the strategy when it ends. A strategy that waits
// pays for it.
inline Simulated simulate_side_by_side(const SpeculationOptions& options, const FakeModels& models,
                                       const CostTable& costs, int32_t tokens,
                                       std::shared_ptr<SharedAcceptance> shared = nullptr) {
  SimulatedRequest request(options, models, costs, tokens, std::move(shared));
  auto& [strategy, executor, out] = request;
  int64_t emitted = 0;
  double now = 0.0;
  struct Running {
    double ends = 0.0;
    WorkResult result;
  };
  std::optional<Running> running[kNumRoles];
  while (true) {
    for (WorkItem& item : out.work) executor.submit(std::move(item));
    emitted += static_cast<int64_t>(out.tokens.size());
    out.clear();
    if (emitted >= tokens) break;
    for (Role role : {Role::kTarget, Role::kDraft}) {
      auto& lane = running[static_cast<size_t>(role)];
      while (!lane && executor.has_work(role)) {
        const size_t before = executor.steps().size();
        auto result = executor.run(role);
        const bool counts = executor.steps().size() > before;  // prefill is free, as in simulate()
        const double seconds = counts ? costs.at(role, executor.steps().back().second) : 0.0;
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
    strategy->on_result(result, out);
  }
  const auto decoded = static_cast<double>(emitted - 1);
  return {decoded * costs.at(Role::kTarget, 1) / now,
          decoded / static_cast<double>(strategy->stats().target_steps)};
}

// Settings chosen by hand that the adaptive rule is compared with.
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
