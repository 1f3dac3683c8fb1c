#include "planner/choose_strategy.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "step/step_costs.h"

namespace forerun {
namespace {

CostTable costs_of(double target_1, double target_8, double draft_1, double draft_8) {
  StepCosts costs;
  costs.add(Role::kTarget, {1}, target_1);
  costs.add(Role::kTarget, {8}, target_8);
  costs.add(Role::kDraft, {1}, draft_1);
  costs.add(Role::kDraft, {8}, draft_8);
  return costs.table();
}

TEST(ChooseStrategy, ExpectedTokensOfAChainIsItsGeometricSum) {
  double sum = 0.0;
  for (int depth = 0; depth <= 5; ++depth) {
    sum += std::pow(0.7, depth);
    EXPECT_NEAR(expected_tokens({0.7}, 6, 1, depth), sum, 1e-12);
  }
  // A width of two at depth one verifies both guesses; bs cuts.
  EXPECT_NEAR(expected_tokens({0.6, 0.2}, 8, 1, 1), 1.8, 1e-12);
  EXPECT_NEAR(expected_tokens({0.6, 0.2}, 2, 1, 1), 1.6, 1e-12);
  // Depth two, w = 2: both children of the root are run.
  EXPECT_NEAR(expected_tokens({0.6, 0.2}, 8, 2, 2), 1.8 + 0.36 + 0.12 + 0.12 + 0.04, 1e-12);
}

// SwiftSpec's Table 6, serial: Qwen2-72B verifies 8 rows in 10.34 ms, a draft step of 8 leaves
// takes 3.73 ms; 3.28 to 4.2 tokens per round give 200 tokens/s, which d = 2 explains.
TEST(ChooseStrategy, SwiftSpecTable6) {
  const double mean_tokens = (3.28 + 4.2 + 4.04 + 3.42 + 3.12 + 3.72) / 6;
  EXPECT_NEAR(mean_tokens / (10.34e-3 + 2 * 3.73e-3), 200.0, 10.0);
  PlannerInput input;
  input.has_draft_model = true;
  input.costs = costs_of(10.2e-3, 10.34e-3, 3.7e-3, 3.73e-3);
  // Chances that give about as many tokens per round.
  input.rank_chances = {0.75, 0.12, 0.04, 0.02, 0.01, 0.01};
  const StrategyChoice choice = choose_strategy(input);
  EXPECT_EQ(choice.auto_choice.source_without_draft, "");
  EXPECT_GE(choice.draft_depth, 2);
  EXPECT_LE(choice.draft_depth, 5);
  EXPECT_GT(choice.tokens_per_round, 2.5);
  EXPECT_LT(choice.tokens_per_round, 4.5);
  EXPECT_NEAR(choice.tokens_per_round / choice.seconds_per_round, 170.0, 50.0);
  EXPECT_NEAR(choice.speedup, choice.tokens_per_round / choice.seconds_per_round * 10.2e-3, 1e-3);
}

TEST(ChooseStrategy, NoDraftWhereDraftingCannotPay) {
  PlannerInput input;
  input.costs = costs_of(1e-3, 2e-3, 1.2e-3, 2e-3);
  input.has_draft_model = true;
  const StrategyChoice slow_draft = choose_strategy(input);
  EXPECT_EQ(slow_draft.auto_choice.source_without_draft, "suffix");
  EXPECT_NE(slow_draft.report.find("even a very good draft"), std::string::npos);
  input.costs = costs_of(1e-3, 2e-3, 5e-4, 1e-3);
  EXPECT_EQ(choose_strategy(input).auto_choice.source_without_draft, "");
  input.rank_chances = {0.2, 0.1};
  const StrategyChoice bad_draft = choose_strategy(input);
  EXPECT_EQ(bad_draft.auto_choice.source_without_draft, "suffix");
  EXPECT_EQ(bad_draft.speedup, 1.0);
  EXPECT_NE(bad_draft.report.find("measured acceptance"), std::string::npos);
}

TEST(ChooseStrategy, CheaperRowsMakeLargerTrees) {
  PlannerInput input;
  input.has_draft_model = true;
  input.costs = costs_of(1e-3, 1.05e-3, 1e-4, 1.05e-4);
  const StrategyChoice cheap = choose_strategy(input);
  input.costs = costs_of(1e-3, 3e-3, 1e-4, 3e-4);
  const StrategyChoice dear = choose_strategy(input);
  EXPECT_GT(cheap.verify_tokens, dear.verify_tokens);
  EXPECT_GT(cheap.speedup, dear.speedup);
  EXPECT_GT(dear.speedup, 1.0);
}

TEST(ChooseStrategy, SaysWhatItDoesNotKnow) {
  PlannerInput input;
  EXPECT_EQ(choose_strategy(input).auto_choice.source_without_draft, "suffix");
  input.has_draft_model = true;
  const StrategyChoice unmeasured = choose_strategy(input);
  EXPECT_EQ(unmeasured.auto_choice.source_without_draft, "");
  EXPECT_NE(unmeasured.report.find("no costs measured"), std::string::npos);
  input.has_draft_model = false;
  input.costs = costs_of(1e-3, 2e-3, 1e-4, 1e-4);
  const StrategyChoice no_draft = choose_strategy(input);
  EXPECT_EQ(no_draft.auto_choice.source_without_draft, "suffix");
  EXPECT_NE(no_draft.report.find("no draft model"), std::string::npos);
}

TEST(ChooseStrategy, ADraftOnItsOwnDevicesRunsBesideTheTarget) {
  const StrategyChoice choice =
      choose_strategy({.costs = {}, .has_draft_model = true, .placing = {.concurrent = true}});
  EXPECT_EQ(choice.auto_choice.strategy, "parallel_tree");
  EXPECT_EQ(choice.auto_choice.source_without_draft, "");
  EXPECT_TRUE(choice.report.ends_with("its own devices: parallel_tree\n")) << choice.report;
  EXPECT_EQ(choose_strategy({.costs = {}, .has_draft_model = true}).auto_choice.strategy,
            "serial_tree");
}

TEST(ChooseStrategy, StagesAreFilledWhereThatIsFastest) {
  PlannerInput input;
  input.costs = costs_of(40e-3, 40.4e-3, 2e-3, 2.1e-3);
  input.has_draft_model = true;
  input.placing = {.concurrent = true, .target_stages = 4};
  const StrategyChoice choice = choose_strategy(input);
  EXPECT_EQ(choice.auto_choice.strategy, "pipelined");
  EXPECT_NE(choice.report.find("4 stages, by simulation: pipelined"), std::string::npos)
      << choice.report;
  // The same with a draft as slow as the target: a few rows enter, and wait for each other.
  input.costs = costs_of(40e-3, 160e-3, 38e-3, 60e-3);
  EXPECT_EQ(choose_strategy(input).auto_choice.strategy, "pipelined");
}

}  // namespace
}  // namespace forerun
