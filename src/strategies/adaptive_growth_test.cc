// Compares the adaptive rule with fixed settings in virtual time, and tests where it must not
// draft.
#include "strategies/adaptive_growth.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "simulation/simulate.h"
#include "simulation/simulated_text.h"

namespace forerun {
namespace {

// Returns the fixed settings that are best somewhere in serial_tree_sim_bench's table.
std::vector<SpeculationOptions> few_settings() {
  std::vector<SpeculationOptions> settings = fixed_settings();
  std::erase_if(settings, [](const SpeculationOptions& o) {
    const bool chain = o.shape == "chain" && (o.draft_depth <= 2 || o.draft_depth == 5);
    const bool tree = o.shape == "best" && o.verify_tokens <= 8 &&
                      ((o.draft_width == 1 && o.draft_depth != 4) ||
                       (o.draft_width == 2 && o.draft_depth <= 3 && o.verify_tokens == 8));
    return !chain && !tree;
  });
  return settings;
}

TEST(AdaptiveGrowth, IsCloseToTheBestFixedSettingAndNeverMuchSlowerThanPlain) {
  const int32_t tokens = 500;
  for (const SimulatedText& text : simulated_texts()) {
    for (const double draft : {0.2, 0.35}) {
      for (const double eight_rows : {1.3, 2.0}) {
        SCOPED_TRACE(text.name + ", draft " + std::to_string(draft) + ", 8 rows " +
                     std::to_string(eight_rows));
        const CostTable costs = simulated_costs(draft, eight_rows);
        const AcceptanceModel models = text.models(9);
        double best = 1.0;
        for (const SpeculationOptions& options : few_settings()) {
          best = std::max(best, simulate(options, models, costs, tokens).speedup);
        }
        const double adaptive = simulate({}, models, costs, tokens).speedup;
        EXPECT_GE(adaptive, 0.98);
        EXPECT_GE(adaptive, 0.97 * best);
      }
    }
  }
}

TEST(AdaptiveGrowth, StopsDraftingWhereItCannotPay) {
  const CostTable costs = simulated_costs(1.5, 2.0);  // a draft slower than its target
  const AcceptanceModel models = simulated_texts()[0].models(1);
  const Simulated run = simulate({}, models, costs, 1000);
  EXPECT_GE(run.speedup, 0.985);
  EXPECT_LT(run.tokens_per_step, 1.1);
}

TEST(AdaptiveGrowth, DraftsMoreWhereGuessesAreBetterAndRowsCheaper) {
  const auto tokens_per_step = [](size_t text, double draft, double eight_rows) {
    return simulate({}, simulated_texts()[text].models(3), simulated_costs(draft, eight_rows), 1000)
        .tokens_per_step;
  };
  const double code = tokens_per_step(0, 0.2, 1.3);
  EXPECT_GT(tokens_per_step(2, 0.2, 1.3), code);  // loops
  EXPECT_LT(tokens_per_step(4, 0.2, 1.3), code);  // sampled prose
  EXPECT_GT(tokens_per_step(0, 0.05, 1.05), code);
  EXPECT_LT(tokens_per_step(0, 0.4, 2.0), code);
}

TEST(AdaptiveGrowth, FindsOutThatTheTextHasChanged) {
  AcceptanceModel models = simulated_texts()[2].models(5);
  models.phases = {simulated_texts().back().models(5).rank_hit, models.rank_hit};
  models.phase_tokens = 400;
  // Catching up is cheap, as if 128 rows of the draft cost little more than one.
  const CostTable costs = simulated_costs(0.3, 1.05);
  const Simulated run = simulate({}, models, costs, 800);
  // Half of it cannot be sped up, and at these costs the allowance covers a probe every few hundred
  // tokens; still the second half takes at most four fifths of its time.
  EXPECT_GT(run.speedup, 1.0 / (0.5 + 0.5 * 0.8));
}

TEST(AdaptiveGrowth, SourcesAloneCostNothingWhereTheyKnowNothing) {
  const CostTable costs = simulated_costs(0.2, 2.0);
  SpeculationOptions options{.strategy = "serial_tree"};
  options.source = "suffix";
  const AcceptanceModel models = simulated_texts()[0].models(6);  // 5,000 tokens in random order
  EXPECT_GE(simulate(options, models, costs, 1000).speedup, 0.98);
  AcceptanceModel loop = models;
  loop.vocab = loop.draft_vocab = 1;
  EXPECT_GE(simulate(options, loop, costs, 1000).speedup, 2.0);
}

// Returns how many of 300 rounds are decided if the Steps run none of the offered rows, or if
// `accepted` of every ten guesses are accepted.
int32_t rounds_looked_at(const CostTable& costs, int32_t accepted) {
  AdaptiveGrowth growth({.has_draft_model = false}, nullptr);
  growth.on_costs(costs);
  TokenTree tree;
  std::vector<LeafRequest> leaves;
  std::vector<NodeId> nodes;
  int32_t looked_at = 0;
  for (int32_t round = 0; round < 300; ++round) {
    const NodeId root = tree.reset(1, 10 + round, 10'000);
    growth.begin_round(tree, {.tokens_left = 500});
    nodes.assign(1, root);
    if (!growth.rests()) {
      ++looked_at;
      const std::vector<Candidate> guess = {{7, -0.1f}};
      tree.add_children(root, guess);
      growth.next_leaves(tree, leaves);
      growth.choose(tree, nodes);
    }
    const bool right = nodes.size() > 1 && round % 10 < accepted;
    if (!right) nodes.resize(1);  // dropped by the executor
    const std::vector<TokenId> sampled(nodes.size(), right ? 7 : 3);
    growth.on_verified(tree, nodes.size(), nodes, sampled);
  }
  return looked_at;
}

TEST(AdaptiveGrowth, BesideOthersLooksRarelyWhereLookingHasBroughtNothing) {
  CostTable costs = simulated_costs(0.2, 1.1);
  EXPECT_EQ(rounds_looked_at(costs, 0), 300) << "alone nobody waits for it";
  costs.sequences = 16;
  EXPECT_LT(rounds_looked_at(costs, 0), 60);
  costs.sequences = 2;
  EXPECT_GT(rounds_looked_at(costs, 0), 90);
  costs.sequences = 16;
  EXPECT_GT(rounds_looked_at(costs, 4), 200) << "guesses that bring something are not missed";
  costs.decision = 0.1f * costs.at(Role::kTarget, 1);
  EXPECT_LT(rounds_looked_at(costs, 0), 30) << "a decision takes the batch a tenth of a Step";
  EXPECT_GT(rounds_looked_at(costs, 4), 200);
}

TEST(AdaptiveGrowth, TakesGuessesFromAllowedSourcesOnly) {
  AcceptanceModel models = simulated_texts()[0].models(3);
  models.vocab = models.draft_vocab = 3;  // the text so far guesses well, too
  const auto run = [&](GuessSources sources) {
    CostTable costs = simulated_costs(0.1, 1.1);
    costs.sources = sources;
    SimulatedRequest request = simulated_request({}, models, costs, 400, nullptr);
    request.run_to_end();
    return request.stats();
  };
  const StrategyStats joined = run({});
  EXPECT_GT(joined.draft_steps, 50);
  EXPECT_GT(run({.text = false}).draft_steps, 50);
  const StrategyStats by_text = run({.drafts = false});
  EXPECT_EQ(by_text.draft_steps, 0);
  EXPECT_GT(by_text.accepted_tokens, 20);
  const StrategyStats plain = run({.text = false, .drafts = false});
  EXPECT_EQ(plain.draft_steps + plain.drafted_tokens, 0);
  EXPECT_EQ(plain.target_steps, 399);
}

// The gain of sources is estimated while none is allowed.
TEST(AdaptiveGrowth, TellsWhatAllSourcesMightBring) {
  CostTable costs = simulated_costs(0.1, 1.1);
  costs.sources = {.text = false, .drafts = false};
  for (const int32_t vocab : {1, 5000}) {
    AcceptanceModel models = simulated_texts()[0].models(3);
    models.vocab = models.draft_vocab = vocab;
    const auto shared = std::make_shared<SharedAcceptance>();
    simulate({}, models, costs, 600, shared);
    EXPECT_EQ(shared->by_text.speedup() > 1.3, vocab == 1);
    EXPECT_GE(shared->by_draft.speedup(), shared->by_text.speedup());
    CostTable own = costs;  // costs of a request with a fixed plan
    own.informs = false;
    const auto untold = std::make_shared<SharedAcceptance>();
    simulate({}, models, own, 600, untold);
    EXPECT_EQ(untold->by_text.speedup(), 1.0);
    EXPECT_EQ(untold->by_draft.speedup(), 1.0);
  }
}

TEST(AdaptiveGrowth, WorksWithoutMeasuredCosts) {
  const AcceptanceModel models = simulated_texts()[0].models(2);
  auto strategy = resolve_speculation({}).value()->make_strategy({});
  // Simulated with costs that the strategy did not receive, of about the ratios that it assumes.
  const CostTable costs = simulated_costs(0.2, 1.3);
  SimulatedRequest request(std::move(strategy), models, {1}, 500);
  request.run_to_end();
  EXPECT_EQ(request.emitted().size(), 499u);
  EXPECT_GT(summarize(request, costs, request.executor().seconds(costs)).speedup, 1.3);
}

}  // namespace
}  // namespace forerun
