#include "planner/speculation_costs.h"

#include <gtest/gtest.h>

#include <cmath>

namespace forerun {
namespace {

TEST(TokensPerRound, IsEquationOne) {
  for (const double alpha : {0.1, 0.5, 0.89, 0.99}) {
    for (int32_t gamma = 0; gamma <= 12; ++gamma) {
      const double closed = (1.0 - std::pow(alpha, gamma + 1)) / (1.0 - alpha);
      EXPECT_NEAR(tokens_per_round(gamma, alpha), closed, 1e-12 * closed) << gamma << " " << alpha;
    }
  }
  EXPECT_EQ(tokens_per_round(5, 0.0), 1.0);  // only the verification's own token
  EXPECT_EQ(tokens_per_round(5, 1.0), 6.0);  // the closed form gives 0 / 0 here
}

TEST(TokensPerRound, HasAnInverse) {
  for (const double alpha : {0.0, 0.3, 0.89, 1.0}) {
    EXPECT_NEAR(acceptance_of(4, tokens_per_round(4, alpha)), alpha, 1e-9);
  }
  EXPECT_EQ(acceptance_of(3, 0.5), 0.0);
  EXPECT_EQ(acceptance_of(3, 4.5), 1.0);
}

// Costs whose digits show their origin: 1 s per Step, 0.01 s per row, 1e-4 s per token read from
// the KV cache and 1e-6 s per attended pair; a tenth of that for the draft model.
StepCosts planted() {
  StepCosts costs;
  for (const int32_t rows : {1, 1000}) {
    costs.add(Role::kTarget, {.rows = rows}, 1.0 + 0.01 * rows);
    costs.add(Role::kDraft, {.rows = rows}, 0.1 + 0.001 * rows);
  }
  costs.set_slopes(Role::kTarget, {.per_kv_token = 1e-4, .per_attended_token = 1e-6});
  costs.set_slopes(Role::kDraft, {.per_kv_token = 1e-5, .per_attended_token = 1e-7});
  return costs;
}

TEST(RoundSeconds, CountRowsContextAndPairsOfEveryStep) {
  const StepCosts costs = planted();
  const BatchLoad load{.sequences = 4, .context_tokens = 1000};
  EXPECT_NEAR(plain_step_seconds(costs, load), 1.04 + 0.4 + 0.004, 1e-9);
  EXPECT_NEAR(verify_step_seconds(costs, load, 2), 1.12 + 0.4 + 0.012, 1e-9);
  // A view of 100 tokens, by the target itself and by the draft model.
  DraftOption draft{.model = Role::kTarget, .budget_tokens = 100};
  EXPECT_NEAR(draft_step_seconds(costs, load, draft), 1.04 + 0.04 + 0.0004, 1e-9);
  draft.model = Role::kDraft;
  EXPECT_NEAR(draft_step_seconds(costs, load, draft), 0.104 + 0.004 + 0.00004, 1e-9);
}

TEST(RoundSeconds, ADraftSeesNoMoreThanThereIs) {
  const StepCosts costs = planted();
  const BatchLoad load{.sequences = 4, .context_tokens = 1000};
  const double whole = draft_step_seconds(costs, load, {.model = Role::kTarget});
  EXPECT_NEAR(whole, plain_step_seconds(costs, load), 1e-12);
  const DraftOption wide{.model = Role::kTarget, .budget_tokens = 5000};
  EXPECT_NEAR(draft_step_seconds(costs, load, wide), whole, 1e-12);
}

TEST(RoundSeconds, ScoringEveryKeyIsReadingHalfOfTheCache) {
  const StepCosts costs = planted();
  const BatchLoad load{.sequences = 4, .context_tokens = 1000};
  const DraftOption placed{.model = Role::kTarget, .budget_tokens = 100};
  EXPECT_EQ(selection_seconds(costs, load, placed), 0.0);
  const DraftOption scored{.model = Role::kTarget, .budget_tokens = 100, .selection_share = 0.5};
  EXPECT_NEAR(selection_seconds(costs, load, scored), 0.2 + 0.002, 1e-9);
}

TEST(PredictedSpeedup, IsEquationFour) {
  const RoundSeconds times{
      .plain = 10.0, .draft = 2.0, .selection = 0.5, .verify = 12.0, .overhead = 0.25};
  EXPECT_NEAR(total_seconds(times, 3), 3 * 2.5 + 12.0 + 0.25, 1e-12);
  const double omega = tokens_per_round(3, 0.8);
  EXPECT_NEAR(seconds_per_token(times, 3, omega), 19.75 / omega, 1e-12);
  EXPECT_NEAR(predicted_speedup(times, 3, omega), 10.0 * omega / 19.75, 1e-12);
}

TEST(PredictedSpeedup, OfTheWholeCacheAsItsOwnDraftIsBelowOne) {
  // Drafting at the cost of verification can never pay, at any acceptance rate.
  const StepCosts costs = planted();
  const BatchLoad load{.sequences = 16, .context_tokens = 4000};
  for (int32_t gamma = 1; gamma <= 8; ++gamma) {
    const RoundSeconds times = round_seconds(costs, load, {.model = Role::kTarget}, gamma);
    EXPECT_LT(predicted_speedup(times, gamma, tokens_per_round(gamma, 1.0)), 1.0) << gamma;
  }
}

TEST(ExpectedChecks, AreWholeSteps) {
  for (const double acceptance : {0.0, 0.5, 1.0}) {
    EXPECT_EQ(expected_checks(5, 0, acceptance), 5.0);
    EXPECT_EQ(expected_checks(1, 3, acceptance), 1.0);
  }
  EXPECT_EQ(expected_checks(6, 3, 0.0), 6.0);
  EXPECT_EQ(expected_checks(6, 3, 1.0), 2.0) << "four and two";
  EXPECT_EQ(expected_checks(2, 3, 0.5), 1.5);
  EXPECT_EQ(expected_checks(3, 3, 0.5), 2.0);
  EXPECT_GT(expected_checks(6, 3, 0.5), 6 / tokens_per_round(3, 0.5));
}

TEST(RoundSeconds, OfAHierarchyHaveFewerDraftStepsOfMoreRows) {
  const StepCosts costs = planted();
  const BatchLoad load{.sequences = 10, .context_tokens = 1000};
  const DraftOption alone = {.budget_tokens = 100};
  DraftOption checks = alone;
  checks.checks = {.guesses = 3, .by_model = true, .budget_tokens = 50, .acceptance = 0.5};
  const RoundSeconds self = round_seconds(costs, load, alone, 6);
  const RoundSeconds both = round_seconds(costs, load, checks, 6);
  EXPECT_EQ(self.drafted, 1.0);
  EXPECT_EQ(self.guesses, 0.0);
  EXPECT_DOUBLE_EQ(both.drafted, 6 / 3.59375);
  EXPECT_GT(both.draft, self.draft + 0.3) << "30 rows more";
  EXPECT_NEAR(both.guesses, 3 * (0.1 + 0.01 + 10 * 50 * 1e-5), 0.01);
  EXPECT_EQ(both.verify, self.verify);
  EXPECT_NEAR(total_seconds(both, 6), 3.59375 * (both.draft + both.guesses) + both.verify, 1e-9);
  const RoundSeconds one = round_seconds(costs, load, checks, 1);
  EXPECT_NEAR(total_seconds(one, 1), one.draft + one.guesses + one.verify, 1e-9);
  // Guesses from the text so far cost nothing.
  checks.checks.by_model = false;
  EXPECT_EQ(round_seconds(costs, load, checks, 6).guesses, 0.0);
}

}  // namespace
}  // namespace forerun
