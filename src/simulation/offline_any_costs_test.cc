// A request produces the same tokens whatever Steps cost and whatever costs its strategy assumes;
// only its duration changes.
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "simulation/offline_runner.h"
#include "simulation/simulated_executor.h"
#include "step/step_costs.h"
#include "strategies/acceptance.h"
#include "strategies/every_policy.h"

namespace forerun {
namespace {

using Random = std::mt19937_64;

// Fills in costs that no machine has: zero, the same for any number of rows, falling with rows.
void fill_costs(Random& random, std::array<float, CostTable::kMaxRows + 1>& seconds) {
  const auto magnitude = [&random](double low, double high) {
    return std::pow(10.0, std::uniform_real_distribution<double>(low, high)(random));
  };
  const double first = magnitude(-7, 0);
  const uint64_t kind = random() % 6;
  for (size_t rows = 1; rows < seconds.size(); ++rows) {
    const std::array<double, 6> kinds = {first * (1.0 + 0.04 * static_cast<double>(rows)),
                                         first,
                                         first * magnitude(-2, 2),
                                         random() % 4 == 0 ? 0.0 : first,
                                         0.0,
                                         1e4};
    seconds[rows] = static_cast<float>(kinds[kind]);
  }
}

CostTable costs_of(Random& random) {
  CostTable costs;
  for (auto& seconds : costs.seconds) fill_costs(random, seconds);
  if (random() % 4 == 0) costs.seconds[1] = costs.seconds[0];  // Steps that end together
  if (random() % 2 == 0) fill_costs(random, costs.entry);
  if (random() % 2 == 0) fill_costs(random, costs.interval);
  return costs;
}

StepProfile profile_of(const CostTable& costs, bool separate) {
  StepProfile profile;
  profile.separate_devices = separate;
  for (const Role role : {Role::kTarget, Role::kDraft}) {
    for (const int32_t rows : StepCosts::kKnots) {
      profile.costs.add(role, {rows, 0}, costs.at(role, rows));
    }
  }
  return profile;
}

SpeculationOptions strategy_of(Random& random) {
  static const std::vector<SpeculationOptions> policies = every_exact_policy();
  SpeculationOptions options = policies[random() % policies.size()];
  options.verify_tokens = static_cast<int32_t>(1 + random() % 40);
  options.draft_width = static_cast<int32_t>(1 + random() % 20);
  options.draft_depth = static_cast<int32_t>(1 + random() % 10);
  options.extra_draft_steps = static_cast<int32_t>(random() % 2);
  return without_unused(*find_strategy(options.strategy), options);
}

// One executor runs the same requests repeatedly, as trials of plans do.
TEST(OfflineAnyCosts, GivesEveryRequestThePlainTokens) {
  for (uint64_t seed = 0; seed < 40; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Random random(seed);
    const CostTable believed = costs_of(random);
    const CostTable real = random() % 2 == 0 ? believed : costs_of(random);
    AcceptanceModel model;
    model.seed = seed;
    model.vocab = model.draft_vocab = random() % 2 == 0 ? 3 : 50;
    SimulatedExecutorOptions machine;
    machine.profile = profile_of(real, random() % 4 != 0);
    machine.acceptance = std::make_shared<ModelledAcceptance>(model);
    machine.budget.rows = random() % 4 == 0 ? 4 : 512;
    SimulatedExecutor executor(std::move(machine));

    std::vector<OfflineRequest> requests(1 + random() % 3);
    for (OfflineRequest& request : requests) {
      request.prompt.assign(1 + random() % 100, 1);
      request.new_tokens = static_cast<int32_t>(1 + random() % 40);
    }
    SpeculationOptions plain_decoding{.strategy = "autoregressive"};
    SpeculationOptions strategy = plain_decoding;
    const auto shared = std::make_shared<SharedAcceptance>();
    OfflineOptions options;
    options.max_active = static_cast<int32_t>(1 + random() % 3);
    options.clock = [&] { return executor.now_seconds(); };
    options.make_strategy = [&](size_t) {
      return resolve_speculation(strategy).value()->make_strategy(
          {.shared = shared, .costs = believed});
    };
    const auto plain = run_offline(executor, requests, options);
    ASSERT_TRUE(plain.ok()) << plain.status().message();
    for (int32_t turn = 0; turn < 6; ++turn) {
      strategy = turn % 2 == 0 ? strategy_of(random) : plain_decoding;
      SCOPED_TRACE(policy_name(strategy));
      const auto results = run_offline(executor, requests, options);
      ASSERT_TRUE(results.ok()) << results.status().message();
      for (size_t index = 0; index < requests.size(); ++index) {
        EXPECT_EQ((*results)[index].tokens, (*plain)[index].tokens);
      }
    }
  }
}

}  // namespace
}  // namespace forerun
