// Tests the lossy rules against their definition, and strategy pipelined with them.
#include "strategies/lossy_choice.h"

#include <gtest/gtest.h>

#include <cmath>
#include <set>
#include <vector>

#include "strategies/run_strategy_rig.h"
#include "strategies/simulate_stages_rig.h"

namespace forerun {
namespace {

Candidate likely(TokenId token, double probability) {
  return {token, static_cast<float>(std::log(probability))};
}

class LossyChoice : public ::testing::Test {
 protected:
  // The draft ranks 7 above 5, and 5 above 6; only the tokens in `sent` have been sent.
  TokenId choose(const AcceptSpec& accept, const std::vector<Candidate>& candidates,
                 const std::set<TokenId>& sent) {
    TokenTree tree(16);
    tree.reset(1, 10, 100);
    const std::vector<Candidate> guesses = {likely(7, 0.5), likely(5, 0.3), likely(6, 0.1)};
    const NodeId first = tree.add_children(tree.root(), guesses);
    for (size_t i = 0; i < guesses.size(); ++i) {
      if (sent.count(guesses[i].token) == 0) continue;
      tree.set_expansion(Role::kTarget, first + static_cast<NodeId>(i), Expansion::kInFlight);
    }
    return lossy_choice(tree, tree.root(), candidates, accept).token;
  }
  const std::vector<Candidate> target_ = {likely(2, 0.4), likely(5, 0.3), likely(7, 0.2),
                                          likely(6, 0.1)};
};

TEST_F(LossyChoice, RelaxedTakesTheGuessThatTheTargetFindsLikeliest) {
  const AcceptSpec relaxed{.rule = AcceptRule::kRelaxed};
  EXPECT_EQ(choose(relaxed, target_, {5, 6, 7}), 5);
  EXPECT_EQ(choose(relaxed, target_, {6, 7}), 7);
  EXPECT_EQ(choose(relaxed, target_, {6}), 6);
  // If nothing has been sent, the target's own token is chosen.
  EXPECT_EQ(choose(relaxed, target_, {}), 2);
}

TEST_F(LossyChoice, NucleusTakesTheDraftsLikeliestInTheTargetsNucleus) {
  const auto within = [](float p) { return AcceptSpec{AcceptRule::kNucleus, p}; };
  EXPECT_EQ(choose(within(0.95f), target_, {5, 6, 7}), 7);
  EXPECT_EQ(choose(within(0.85f), target_, {5, 6, 7}), 7);
  EXPECT_EQ(choose(within(0.65f), target_, {5, 6, 7}), 5);
  // A nucleus smaller than the most likely token's probability has only that token.
  EXPECT_EQ(choose(within(0.3f), target_, {5, 6, 7}), 2);
  EXPECT_EQ(choose(within(0.85f), target_, {6}), 2);
  EXPECT_EQ(choose(within(1.0f), target_, {6}), 6);
}

TEST(AcceptRules, AreNamed) {
  EXPECT_EQ(parse_accept("").value(), AcceptSpec{});
  for (const char* name : {"match", "rejection", "relaxed", "nucleus:0.5", "nucleus:1"}) {
    EXPECT_EQ(parse_accept(name).value().name(), name);
  }
  EXPECT_EQ(parse_accept("nucleus").value().name(), "nucleus:0.9");
  for (const char* name : {"nucleus:", "nucleus:0", "nucleus:1.1", "nucleus:nan", "nucleus:-1",
                           "nucleus:0.5x", "relaxed:1", "match:", "exact", ":", "nucleus:inf"}) {
    const auto spec = parse_accept(name);
    ASSERT_FALSE(spec.ok()) << name;
    EXPECT_NE(spec.status().message().find("relaxed, nucleus"), std::string::npos);
  }
}

TEST(AcceptRules, ThoseThatGiveTheTextUpAreOfPipelinedAlone) {
  for (const char* accept : {"relaxed", "nucleus:0.8"}) {
    for (const char* strategy : {"serial_tree", "parallel_tree", "sparse_self", "autoregressive"}) {
      const auto plan = resolve_speculation({.strategy = strategy, .accept = accept});
      ASSERT_FALSE(plan.ok()) << strategy;
      EXPECT_NE(plan.status().message().find(accept), std::string::npos) << plan.status().message();
    }
    EXPECT_TRUE(resolve_speculation({.strategy = "pipelined", .accept = accept}).ok());
  }
}

// Simulates a draft that is right at every other position and close at the others.
SimulatedStages simulated(const std::string& accept, float temperature) {
  AcceptanceModel models;
  models.vocab = models.draft_vocab = 48;
  models.rank_hit = {0.5, 0.2};
  SamplingParams sampling;
  sampling.temperature = temperature;
  return simulate_stages({.strategy = "pipelined",
                          .shape = "best",
                          .accept = accept,
                          .verify_tokens = 16,
                          .draft_width = 8},
                         models, 200, 8, 1, sampling);
}

TEST(PipelinedByLossyRules, MissesLessOften) {
  const SimulatedStages exact = simulated("match", 0.0f);
  for (const char* accept : {"relaxed", "nucleus:0.99"}) {
    const SimulatedStages run = simulated(accept, 0.0f);
    EXPECT_TRUE(run.breaches.empty()) << run.breaches.front();
    EXPECT_LT(run.steps_per_token, 0.8 * exact.steps_per_token) << accept;
    EXPECT_NE(run.tokens, exact.tokens);
  }
}

TEST(PipelinedByLossyRules, ANucleusOfOneTokenIsMatch) {
  EXPECT_EQ(simulated("nucleus:0.0001", 0.0f).tokens, simulated("match", 0.0f).tokens);
}

TEST(PipelinedByLossyRules, SampledRequestsAreVerifiedByMatch) {
  for (const char* accept : {"relaxed", "nucleus"}) {
    EXPECT_EQ(simulated(accept, 0.8f).tokens, simulated("match", 0.8f).tokens);
  }
}

}  // namespace
}  // namespace forerun
