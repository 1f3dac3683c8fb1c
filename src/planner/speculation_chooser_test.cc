#include "planner/speculation_chooser.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <vector>

#include "planner/plan_machine.h"
#include "planner/planted_costs_rig.h"

namespace forerun {
namespace {

std::vector<SpeculationCandidate> candidates() {
  return {{.draft = {.model = Role::kTarget, .budget_tokens = 2048},
           .view = "snapkv",
           .acceptance = 0.89},
          {.draft = {.model = Role::kTarget, .budget_tokens = 512},
           .view = "streaming_llm",
           .acceptance = 0.80},
          {.draft = {.model = Role::kDraft}, .view = "", .acceptance = 0.66}};
}

constexpr BatchLoad kLong{.sequences = 24, .context_tokens = 32000};
constexpr BatchLoad kShort{.sequences = 24, .context_tokens = 600};

// Plays rounds of a batch; each candidate's draft tokens are right with its chance in `truth`.
class Batch {
 public:
  explicit Batch(std::vector<double> truth) : truth_(std::move(truth)) {}

  // One choice and one round of all sequences. Returns what was chosen.
  SpeculationForecast round(SpeculationChooser& chooser, const StepCosts& costs,
                            const BatchLoad& load) {
    const SpeculationForecast chosen = chooser.choose(costs, load);
    for (int32_t sequence = 0; sequence < load.sequences && !chosen.is_plain(); ++sequence) {
      std::bernoulli_distribution right(truth_[static_cast<size_t>(chosen.candidate)]);
      int32_t accepted = 0;
      while (accepted < chosen.gamma && right(rng_)) ++accepted;
      chooser.observe(chosen.candidate, chosen.gamma, accepted);
    }
    return chosen;
  }

  std::vector<double> truth_;

 private:
  std::mt19937 rng_{7};
};

TEST(SpeculationChooser, TakesTheBestByPrediction) {
  const StepCosts costs = planted_costs();
  SpeculationChooser chooser(candidates());
  EXPECT_TRUE(chooser.current().is_plain());
  const SpeculationForecast& chosen = chooser.choose(costs, kLong);
  const SpeculationForecast best = best_speculation(costs, kLong, candidates());
  EXPECT_EQ(chosen.candidate, best.candidate);
  EXPECT_EQ(chosen.gamma, best.gamma);
  EXPECT_GT(chosen.speedup, 1.5);
}

TEST(SpeculationChooser, NeverChoosesWhatIsPredictedSlowerThanPlain) {
  std::mt19937 rng(3);
  std::uniform_real_distribution<double> uniform(0.0, 1.0);
  int speculated = 0;
  int plain = 0;
  for (int run = 0; run < 300; ++run) {
    auto drafts = candidates();
    for (SpeculationCandidate& each : drafts) each.acceptance = uniform(rng);
    SpeculationChooser chooser(drafts);
    const StepCosts costs = planted_costs(run % 2 == 0);
    Batch batch({uniform(rng), uniform(rng), uniform(rng)});
    for (int step = 0; step < 40; ++step) {
      const BatchLoad load{.sequences = 1 + static_cast<int32_t>(64 * uniform(rng)),
                           .context_tokens = 1 + static_cast<int64_t>(40000 * uniform(rng))};
      const SpeculationForecast chosen = batch.round(chooser, costs, load);
      (chosen.is_plain() ? plain : speculated) += 1;
      EXPECT_GE(chosen.speedup, 1.0);
      if (chosen.is_plain()) continue;
      const auto index = static_cast<size_t>(chosen.candidate);
      EXPECT_TRUE(costs.has(chooser.candidates()[index].draft.model));
    }
  }
  EXPECT_GT(speculated, 1000);
  EXPECT_GT(plain, 1000);
}

TEST(SpeculationChooser, ReturnsToPlainWhenGuessesTurnWrong) {
  const StepCosts costs = planted_costs(false);
  SpeculationChooser chooser({candidates().front()});
  Batch batch({0.89});
  for (int i = 0; i < 50; ++i) batch.round(chooser, costs, kLong);
  EXPECT_FALSE(chooser.current().is_plain());
  EXPECT_NEAR(chooser.candidates().front().acceptance, 0.89, 0.04);
  batch.truth_ = {0.05};
  int32_t rounds = 0;
  while (!batch.round(chooser, costs, kLong).is_plain()) ASSERT_LT(++rounds, 30);
  EXPECT_GT(rounds, 0);
}

TEST(SpeculationChooser, GuessesLessFarWhereTheyAreRightLessOften) {
  const StepCosts costs = planted_costs(false);
  SpeculationChooser chooser({candidates().front()});
  const int32_t far = chooser.choose(costs, kLong).gamma;
  Batch batch({0.7});
  for (int i = 0; i < 60; ++i) batch.round(chooser, costs, kLong);
  ASSERT_FALSE(chooser.current().is_plain());
  EXPECT_LT(chooser.current().gamma, far);
}

TEST(SpeculationChooser, TriesAgainAfterALongTime) {
  const StepCosts costs = planted_costs(false);
  SpeculationChooser chooser({candidates().front()});
  Batch batch({0.05});
  int speculated = 0;
  constexpr int kRounds = 40000;
  for (int i = 0; i < kRounds; ++i) {
    speculated += batch.round(chooser, costs, kLong).is_plain() ? 0 : 1;
  }
  EXPECT_GT(speculated, 10);             // it does look again
  EXPECT_LT(speculated, kRounds / 200);  // and that costs next to nothing
  // A candidate whose acceptance rate has risen is found.
  batch.truth_ = {0.89};
  for (int i = 0; i < kRounds; ++i) batch.round(chooser, costs, kLong);
  EXPECT_FALSE(chooser.current().is_plain());
}

TEST(SpeculationChooser, ADraftThatDisappointsIsReplaced) {
  const StepCosts costs = planted_costs();
  SpeculationChooser chooser(candidates());
  const int32_t first = chooser.choose(costs, kLong).candidate;
  std::vector<double> truth = {0.89, 0.80, 0.66};
  truth[static_cast<size_t>(first)] = 0.2;
  Batch batch(truth);
  for (int i = 0; i < 60; ++i) batch.round(chooser, costs, kLong);
  EXPECT_FALSE(chooser.current().is_plain());
  EXPECT_NE(chooser.current().candidate, first);
}

TEST(SpeculationChooser, FollowsTheLoad) {
  const StepCosts costs = planted_costs(false);
  SpeculationChooser chooser({candidates().front()});
  EXPECT_FALSE(chooser.choose(costs, kLong).is_plain());
  EXPECT_TRUE(chooser.choose(costs, kShort).is_plain());  // shorter than the view
  EXPECT_TRUE(chooser.choose(costs, {.sequences = 1, .context_tokens = 3000}).is_plain());
  EXPECT_FALSE(chooser.choose(costs, kLong).is_plain());
}

// Two drafts that are equally good, a load that swings over the borders of buckets, noise.
TEST(SpeculationChooser, DoesNotFlap) {
  auto twins = candidates();
  twins[1] = twins[0];
  twins[1].view = "other";
  const StepCosts costs = planted_costs(false);
  SpeculationChooser chooser({twins[0], twins[1]});
  Batch batch({0.88, 0.88});
  std::mt19937 rng(11);
  int drafts = 0;
  SpeculationForecast before = batch.round(chooser, costs, kLong);
  ASSERT_FALSE(before.is_plain());
  constexpr int kRounds = 5000;
  int settings = 0;
  for (int i = 0; i < kRounds; ++i) {
    const BatchLoad load{.sequences = 22 + static_cast<int32_t>(rng() % 5),
                         .context_tokens = 30000 + static_cast<int64_t>(rng() % 4000)};
    const SpeculationForecast chosen = batch.round(chooser, costs, load);
    drafts += chosen.candidate != before.candidate ? 1 : 0;
    settings += chosen.gamma != before.gamma ? 1 : 0;
    before = chosen;
  }
  EXPECT_LE(drafts, 5);  // one in a thousand rounds
  EXPECT_LE(settings, kRounds / 10);
}

// At the load where speculation gains nothing, noise must not make it come and go.
TEST(SpeculationChooser, DoesNotFlapWhereItHardlyPays) {
  const StepCosts costs = planted_costs(false);
  const std::vector<SpeculationCandidate> self = {candidates().front()};
  const auto critical = critical_context({.costs = costs}, 16, self, 1 << 20);
  ASSERT_TRUE(critical.has_value());
  SpeculationChooser chooser(self);
  Batch batch({0.89});
  int changes = 0;
  bool plain = true;
  for (int i = 0; i < 5000; ++i) {
    const bool now =
        batch.round(chooser, costs, {.sequences = 16, .context_tokens = *critical + i % 200 - 100})
            .is_plain();
    changes += now != plain ? 1 : 0;
    plain = now;
  }
  EXPECT_LE(changes, 4);
}

TEST(SpeculationChooser, TakesNoHarmFromForeignObservations) {
  SpeculationChooser chooser(candidates());
  chooser.observe(SpeculationForecast::kPlain, 4, 2);
  chooser.observe(3, 4, 2);
  chooser.observe(0, 4, 9);  // more than were tried: all of them
  chooser.observe(0, 0, 0);  // none tried
  chooser.observe(0, -1, 1);
  for (size_t i = 0; i < 3; ++i) {
    EXPECT_GE(chooser.candidates()[i].acceptance, 0.0);
    EXPECT_LE(chooser.candidates()[i].acceptance, 1.0);
  }
  SpeculationChooser none({});
  EXPECT_TRUE(none.choose(planted_costs(), kLong).is_plain());
}

}  // namespace
}  // namespace forerun
