#include "planner/rank_speculation.h"

#include <gtest/gtest.h>

#include "planner/planted_costs_rig.h"

namespace forerun {
namespace {

TEST(RankSpeculation, OrdersEverySettingByItsSpeed) {
  const StepCosts costs = planted_costs();
  const BatchLoad load{.sequences = 24, .context_tokens = 32000};
  const auto ranked = rank_speculation(costs, load, planted_candidates(), {.max_gamma = 6});
  ASSERT_EQ(ranked.size(), 1u + 2 * 6);
  for (size_t i = 1; i < ranked.size(); ++i) {
    EXPECT_GE(ranked[i - 1].speedup, ranked[i].speedup);
    EXPECT_GE(ranked[i - 1].tokens_per_s, ranked[i].tokens_per_s);
  }
  for (const SpeculationForecast& each : ranked) {
    if (each.is_plain()) {
      EXPECT_EQ(each.speedup, 1.0);
      EXPECT_NEAR(each.tokens_per_s, 24 / 0.04024, 1.0);  // 8 + 0.24 + 32 ms
      continue;
    }
    // Equation 4, computed by hand.
    const bool self = each.candidate == 0;
    const double plain = 8 + 0.01 * 24 + 32;
    const double draft = self ? 8 + 0.24 + 2.048 : 0.1 * plain;
    const double verify = 8 + 0.24 * (each.gamma + 1) + 32;
    const double omega = tokens_per_round(each.gamma, self ? 0.89 : 0.66);
    EXPECT_NEAR(each.speedup, plain * omega / (each.gamma * draft + verify), 1e-6);
  }
  EXPECT_GT(ranked.front().speedup, 1.7);
  EXPECT_EQ(best_of_each(ranked).size(), 3u);
}

TEST(RankSpeculation, PlainDecodingIsFirstWhereNothingIsFaster) {
  const StepCosts costs = planted_costs();
  auto poor = planted_candidates();
  for (SpeculationCandidate& each : poor) each.acceptance = 0.05;
  EXPECT_TRUE(best_speculation(costs, {24, 32000}, poor).is_plain());
  EXPECT_TRUE(best_speculation(costs, {24, 32000}, {}).is_plain());
}

TEST(RankSpeculation, LeavesOutWhatCannotRun) {
  // A view of at least the whole text saves nothing; without costs there is no draft model.
  const auto self = planted_candidates().front();
  const StepCosts costs = planted_costs(/*with_draft=*/false);
  EXPECT_FALSE(applies(self, costs, {1, 2048}));
  EXPECT_TRUE(applies(self, costs, {1, 2049}));
  EXPECT_FALSE(applies(planted_candidates().back(), costs, {1, 2049}));
  EXPECT_TRUE(applies(planted_candidates().back(), planted_costs(), {1, 10}));
  EXPECT_FALSE(applies({.draft = {.model = Role::kTarget}, .acceptance = 1.0}, costs, {1, 2049}));
  EXPECT_EQ(rank_speculation(costs, {4, 1000}, planted_candidates()).size(), 1u);
}

}  // namespace
}  // namespace forerun
