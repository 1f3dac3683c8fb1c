// Parallel tree generation on the strict executor: whichever side is late, the tokens are plain
// decoding's, nothing is computed twice and no side waits forever.
#include "strategies/parallel_tree.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "base/sanitized.h"
#include "simulation/simulate.h"
#include "simulation/simulated_text.h"
#include "strategies/every_policy.h"
#include "strategies/run_strategy_rig.h"

namespace forerun {
namespace {

const std::vector<std::string> kShapes = {"adaptive", "best"};

Case random_parallel(std::mt19937& rng) {
  Case c = random_case(rng, policies_of("parallel_tree", every_exact_policy()));
  c.options.draft_width = 1 + static_cast<int32_t>(rng() % 12);
  return c;
}

void expect_bounded(const Case& c, const Outcome& run) {
  EXPECT_LE(run.largest_region[1], ParallelTree::kMaxDraftNodes);
  if (c.options.shape == "best") {
    EXPECT_LE(run.largest_region[0], c.options.verify_tokens.value_or(8));
  }
}

class RandomRounds : public ::testing::TestWithParam<uint32_t> {};

TEST_P(RandomRounds, EmitPlainDecodingsTokensAndKeepTheRules) {
  std::mt19937 rng(GetParam());
  for (int i = 0; i < 40; ++i) {
    const Case c = random_parallel(rng);
    SCOPED_TRACE(c.options.shape + " " + c.options.source + " case " + std::to_string(i));
    const Outcome run = run_case(c);
    expect_lossless(c, run);
    expect_bounded(c, run);
    if (HasFailure()) return;
  }
}

TEST_P(RandomRounds, MayBeCancelledAnywhere) {
  std::mt19937 rng(GetParam() + 1000);
  for (int i = 0; i < 10; ++i) {
    Case c = random_parallel(rng);
    c.stop_after = static_cast<int32_t>(rng() % 20);
    SCOPED_TRACE(c.options.shape + " " + c.options.source);
    expect_lossless(c, run_case(c));
  }
}

TEST_P(RandomRounds, ASmallerDraftVocabularyChangesNothing) {
  std::mt19937 rng(GetParam() + 2000);
  for (int i = 0; i < 10; ++i) {
    Case c = random_parallel(rng);
    c.models.draft_vocab = 1 + static_cast<int32_t>(rng() % static_cast<uint32_t>(c.models.vocab));
    c.facts.draft_vocab = c.models.draft_vocab;
    c.facts.target_vocab = c.models.vocab;
    SCOPED_TRACE(c.options.shape + " " + c.options.source);
    expect_lossless(c, run_case(c));
  }
}

INSTANTIATE_TEST_SUITE_P(Seeds, RandomRounds, ::testing::Range(0u, 25u));

Case simple(double agreement, int32_t tokens = 600) {
  Case c;
  c.options.strategy = "parallel_tree";
  c.options.shape = "best";
  c.options.draft_width = 4;
  c.options.draft_depth = 3;
  c.models.rank_hit = {agreement};
  c.models.spread = 0.0;
  c.prompt = {1, 2, 3};
  c.max_tokens = 3 + tokens;
  return c;
}

// For any shares of hits and misses, a long text does not make the tree grow.
TEST(ParallelTree, TheTreeStaysBoundedOverLongTexts) {
  for (const double agreement : {0.0, 0.5, 0.9, 1.0}) {
    for (const std::string& shape : kShapes) {
      for (uint32_t delays = 0; delays < 6; ++delays) {
        Case c = simple(agreement, kSanitized ? 300 : 800);
        c.options.shape = shape;
        c.options.draft_depth = 16;  // more than fit into the target's time
        c.delays = delays;
        SCOPED_TRACE(shape + " " + std::to_string(agreement));
        const Outcome run = run_case(c);
        expect_lossless(c, run);
        expect_bounded(c, run);
      }
    }
  }
}

TEST(ParallelTree, APerfectDraftFillsEveryVerification) {
  Case c = simple(1.0);
  c.options.draft_depth = 8;
  c.record_rounds = true;
  const Outcome run = run_case(c);
  expect_lossless(c, run);
  // Between verifications the draft is sometimes ahead by 8 or more nodes.
  EXPECT_LT(run.stats.target_steps, 600 / 3);
  for (const RoundRecord& round : run.rounds) {
    EXPECT_EQ(round.nodes.front().parent, -1);
    EXPECT_TRUE(round.nodes.front().accepted);
  }
}

TEST(ParallelTree, AUselessDraftStillEmitsATokenARound) {
  Case c = simple(0.0);
  const Outcome run = run_case(c);
  expect_lossless(c, run);
  EXPECT_EQ(run.stats.target_steps, 599);
  EXPECT_EQ(run.stats.accepted_tokens, 0);
}

TEST(ParallelTree, ShortOutputsEndWithoutWaiting) {
  for (const std::string& shape : kShapes) {
    for (int32_t output = 0; output <= 6; ++output) {
      for (uint32_t delays = 0; delays < 4; ++delays) {
        Case c = simple(1.0, output);
        c.options.shape = shape;
        c.delays = delays;
        SCOPED_TRACE(shape + " " + std::to_string(output));
        const Outcome run = run_case(c);
        expect_lossless(c, run);
        if (output == 0) {
          EXPECT_EQ(run.target_items + run.draft_items, 0);
        } else if (output == 1) {
          EXPECT_EQ(run.draft_items, 0) << "nothing may be guessed";
        }
      }
    }
  }
}

// With one row per verification the tree never needs topping up: a draft that never answers costs
// only its guesses.
TEST(ParallelTree, ADraftThatNeverAnswersDelaysNothingThatNeedsNoGuesses) {
  Case c = simple(1.0, 50);
  c.options.verify_tokens = 1;
  SimulatedRequest request(resolve_speculation(c.options).value()->make_strategy({}), c.models,
                           c.prompt, c.max_tokens);
  while (request.has_work(Role::kTarget)) request.turn(Role::kTarget);
  EXPECT_EQ(request.tokens(), plain(c.models, c.prompt, c.max_tokens));
  EXPECT_LE(request.items(Role::kDraft), 2) << "work piles up on a side that does not answer";
}

TEST(ParallelTree, ResultsOfAFailedItemAndUnknownTagsChangeNothing) {
  const Case c = simple(1.0, 50);
  const auto strategy = resolve_speculation(c.options).value()->make_strategy({});
  StrategyOutput out;
  strategy->start({.sequence = 1, .tokens = c.prompt, .max_tokens = c.max_tokens, .sampling = {}},
                  out);
  ASSERT_EQ(out.work.size(), 2u);
  WorkResult failed;
  failed.tag = out.work[0].tag;
  failed.status = Status(StatusCode::kInternal, "lost");
  out.clear();
  strategy->on_result(failed, out);
  WorkResult unknown;
  unknown.tag = 12345;
  strategy->on_result(unknown, out);
  EXPECT_TRUE(out.work.empty());
  EXPECT_TRUE(out.tokens.empty());
}

// Returns the rows of the widest draft step, and the number of draft steps before the first
// verification's result.
std::pair<int32_t, int32_t> sizes_at(const CostTable& costs) {
  Case c = simple(0.5, 300);
  c.models.rank_hit = {0.5, 0.2, 0.1};
  c.options.shape = "adaptive";
  SimulatedRequest request(
      resolve_speculation(c.options).value()->make_strategy({.shared = nullptr, .costs = costs}),
      c.models, c.prompt, c.max_tokens);
  while (request.has_work(Role::kDraft)) request.turn(Role::kDraft);
  const auto first_steps = 1 + static_cast<int32_t>(request.executor().steps().size());
  request.run_to_end(Role::kDraft);
  int32_t widest = 0;
  for (const auto& [role, rows] : request.executor().steps()) {
    if (role == Role::kDraft) widest = std::max(widest, rows);
  }
  return {widest, first_steps};
}

TEST(ParallelTree, AdaptiveSizesFollowFromCosts) {
  EXPECT_EQ(sizes_at(simulated_costs(0.1, 1.0)), std::pair(16, 10)) << "rows are free";
  EXPECT_EQ(sizes_at(simulated_costs(0.5, 1.0)), std::pair(16, 2)) << "a dear draft";
  EXPECT_EQ(sizes_at(simulated_costs(0.1, 8.0)), std::pair(2, 40)) << "rows are dear";
}

// Runs in virtual time, with the times of SwiftSpec's Table 6 and the demo pair's acceptance.
TEST(ParallelTree, ConcurrentDraftingBeatsSequential) {
  const CostTable sequential = flat_costs(10.34, 3.73);
  const CostTable beside = flat_costs(10.48, 3.25);
  const std::vector<SimulatedText> texts = simulated_texts();
  for (size_t text = 0; text < 2; ++text) {  // greedy code and prose
    SCOPED_TRACE(texts[text].name);
    const AcceptanceModel models = texts[text].models(42);
    SpeculationOptions options{.strategy = "serial_tree"};
    options.shape = "best";
    options.draft_width = 8;
    double serial = 0.0;
    for (int32_t depth = 1; depth <= 6; ++depth) {
      options.draft_depth = depth;
      serial = std::max(serial, simulate(options, models, sequential, 1000).speedup);
    }
    options.strategy = "parallel_tree";
    options.draft_depth = 3;
    for (const std::string& shape : kShapes) {
      options.shape = shape;
      const Simulated parallel = simulate_concurrent(options, models, beside, 1000);
      EXPECT_GT(parallel.speedup, 1.25 * serial) << shape;
    }
  }
}

TEST(ParallelTree, LogprobsComeFromTheRowThatDrewTheToken) {
  const Outcome run = run_case(simple(0.6));
  std::vector<TokenId> text = {1, 2, 3};
  for (const EmittedToken& token : run.tokens) {
    const uint64_t history = StrictExecutor::hash_of(text);
    EXPECT_FLOAT_EQ(token.logprob, -static_cast<float>(AcceptanceModel::uniform(history)));
    text.push_back(token.token);
  }
}

}  // namespace
}  // namespace forerun
