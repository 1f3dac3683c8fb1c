// Compares every shape and source with plain decoding, on the strict executor.
#include "strategies/serial_tree.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <random>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "simulation/simulate.h"
#include "strategies/adaptive_growth.h"
#include "strategies/autoregressive.h"
#include "strategies/every_policy.h"
#include "strategies/fixed_growth.h"
#include "strategies/parallel_tree.h"
#include "strategies/run_strategy_rig.h"

namespace forerun {
namespace {

std::vector<SpeculationOptions> policies() {
  return policies_of("serial_tree", every_exact_policy());
}

class RandomCases : public ::testing::TestWithParam<uint32_t> {};

TEST_P(RandomCases, EmitPlainDecodingsTokensAndKeepTheRules) {
  std::mt19937 rng(GetParam());
  for (int i = 0; i < 40; ++i) {
    Case c = random_case(rng, policies());
    SCOPED_TRACE(c.options.shape + " " + c.options.source + " case " + std::to_string(i));
    const Outcome run = run_case(c);
    expect_lossless(c, run);
    if (HasFailure()) return;
  }
}

TEST_P(RandomCases, MayBeCancelledAnywhere) {
  std::mt19937 rng(GetParam() + 1000);
  for (int i = 0; i < 10; ++i) {
    Case c = random_case(rng, policies());
    c.stop_after = static_cast<int32_t>(rng() % 20);
    SCOPED_TRACE(c.options.shape + " " + c.options.source);
    expect_lossless(c, run_case(c));
  }
}

TEST_P(RandomCases, RejectionFollowsTheAcceptedPath) {
  std::mt19937 rng(GetParam() + 2000);
  for (int i = 0; i < 10; ++i) {
    const char* const shape = std::vector{"chain", "2,2,1", "<3,1>"}[rng() % 3];
    Case c = random_case(
        rng,
        {{.strategy = "serial_tree", .source = "model", .shape = shape, .accept = "rejection"}});
    SCOPED_TRACE(c.options.shape);
    expect_lossless(c, run_case(c));
  }
}

TEST_P(RandomCases, ASmallerDraftVocabularyChangesNothing) {
  std::mt19937 rng(GetParam() + 3000);
  for (int i = 0; i < 10; ++i) {
    Case c = random_case(rng, policies());
    c.models.draft_vocab = 1 + static_cast<int32_t>(rng() % static_cast<uint32_t>(c.models.vocab));
    c.facts.draft_vocab = c.models.draft_vocab;
    c.facts.target_vocab = c.models.vocab;
    SCOPED_TRACE(c.options.shape + " " + c.options.source);
    expect_lossless(c, run_case(c));
  }
}

INSTANTIATE_TEST_SUITE_P(Seeds, RandomCases, ::testing::Range(0u, 25u));

Case simple(const std::string& shape, double agreement) {
  Case c;
  c.options.shape = shape;
  c.models.rank_hit = {agreement};
  c.models.spread = 0.0;
  c.prompt = {1, 2, 3};
  c.max_tokens = 63;
  return c;
}

TEST(SerialTree, APerfectDraftFillsEveryChain) {
  Case c = simple("chain", 1.0);
  c.options.draft_depth = 4;
  c.record_rounds = true;
  const Outcome run = run_case(c);
  expect_lossless(c, run);
  // 60 tokens: one from the prefill, then 5 per round; the last round has 4.
  EXPECT_EQ(run.stats.target_steps, 12);
  EXPECT_EQ(run.stats.accepted_tokens, 47);
  EXPECT_EQ(run.rounds.size(), 12u);
  for (const RoundRecord& round : run.rounds) {
    for (size_t i = 0; i < round.nodes.size(); ++i) {
      EXPECT_EQ(round.nodes[i].parent, static_cast<int32_t>(i) - 1);
      EXPECT_TRUE(round.nodes[i].accepted);
    }
  }
  EXPECT_TRUE(run.tokens[1].drafted);
  EXPECT_FALSE(run.tokens[5].drafted);
}

// Two nodes are verified, the third is sampled: a guess that the draft has not run itself.
TEST(SerialTree, ARootThatTheDraftHasNotRunIsAHit) {
  Case c = simple("best", 1.0);
  c.options.verify_tokens = 2;
  c.options.draft_width = 1;
  c.options.draft_depth = 2;
  c.record_rounds = true;
  const Outcome run = run_case(c);
  expect_lossless(c, run);
  ASSERT_GT(run.rounds.size(), 10u);
  for (size_t i = 0; i + 2 < run.rounds.size(); ++i) {
    EXPECT_EQ(run.rounds[i].reroot, Reroot::kHit) << i;
  }
}

TEST(SerialTree, AUselessDraftStillEmitsATokenARound) {
  Case c = simple("chain", 0.0);
  c.record_rounds = true;
  const Outcome run = run_case(c);
  expect_lossless(c, run);
  // The last round has no room for a guess.
  for (size_t i = 0; i + 1 < run.rounds.size(); ++i) {
    EXPECT_EQ(run.rounds[i].reroot, Reroot::kMiss) << i;
  }
  EXPECT_EQ(run.rounds.back().reroot, Reroot::kNone);
  EXPECT_EQ(run.stats.target_steps, 59);
  EXPECT_EQ(run.stats.accepted_tokens, 0);
}

TEST(SerialTree, ATreeBranchesAndBeatsTheChain) {
  Case tree = simple("best", 0.4);
  tree.models.rank_hit = {0.4, 0.3, 0.2};
  tree.max_tokens = 400;
  tree.options.verify_tokens = 16;
  tree.record_rounds = true;
  const Outcome wide = run_case(tree);
  expect_lossless(tree, wide);
  const bool branches = std::any_of(wide.rounds.begin(), wide.rounds.end(), [](const auto& round) {
    return round.nodes.size() > 2 && round.nodes[1].parent == 0 && round.nodes[2].parent == 0;
  });
  EXPECT_TRUE(branches);
  Case chain = tree;
  chain.options.shape = "chain";
  chain.options.verify_tokens.reset();
  EXPECT_LT(wide.stats.target_steps, run_case(chain).stats.target_steps * 8 / 10);
}

TEST(SerialTree, OneTokenOfPromptAndOneOfOutput) {
  for (const std::string& shape : every_tree_shape()) {
    if (shape == "levels") continue;
    for (int32_t output = 0; output <= 4; ++output) {
      Case c = simple(shape, 1.0);
      c.prompt = {9};
      c.max_tokens = 1 + output;
      SCOPED_TRACE(shape + " " + std::to_string(output));
      const Outcome run = run_case(c);
      expect_lossless(c, run);
      if (output == 0) {
        EXPECT_EQ(run.target_items, 0);
      } else if (output <= 2) {
        EXPECT_EQ(run.draft_items, 0) << "nothing may be guessed";
      }
    }
  }
}

TEST(SerialTree, ASourceWithoutModelFindsRepetition) {
  for (const char* source : {"ngram", "suffix", "ngram+suffix"}) {
    Case c = simple("best", 0.0);
    c.options.source = source;
    c.facts.has_draft_model = false;
    c.models.vocab = 1;  // always the same token
    c.models.draft_vocab = 1;
    c.max_tokens = 203;
    const Outcome run = run_case(c);
    expect_lossless(c, run);
    EXPECT_EQ(run.draft_items, 0);
    EXPECT_LT(run.stats.target_steps, 50) << source;
  }
}

// A source that makes no guesses and keeps the tokens that it has read.
class Reader : public DraftSource {
 public:
  explicit Reader(std::vector<TokenId>* read) : read_(read) {}
  void observe(std::span<const TokenId> tokens) override {
    read_->insert(read_->end(), tokens.begin(), tokens.end());
  }
  void propose(std::span<const TokenId> /*path*/, int32_t /*count*/,
               std::vector<Candidate>& out) const override {
    out.clear();
  }

 private:
  std::vector<TokenId>* read_;
};

std::vector<TokenId> text_of(std::vector<TokenId> known, const SimulatedRequest& request) {
  const std::vector<TokenId> tokens = request.tokens();
  known.insert(known.end(), tokens.begin(), tokens.end());
  return known;
}

TEST(SerialTree, TheFirstTokenDoesNotWaitForTheSourceToReadThePrompt) {
  for (const bool has_draft_model : {true, false}) {
    const std::vector<TokenId> prompt = {5, 6, 7};
    std::vector<TokenId> read;
    SimulatedRequest request(
        std::make_unique<SerialTree>(
            SerialTreeConfig{.has_draft_model = has_draft_model}, std::make_unique<Reader>(&read),
            std::make_unique<BestGrowth>(BestGrowth::Params{.has_draft_model = has_draft_model})),
        {}, prompt, 40);
    for (int turn = 0; !request.idle(); ++turn) {
      // Then all of the text, each token once.
      const bool waits = turn == 0 || (turn == 1 && has_draft_model);
      EXPECT_EQ(read, waits ? std::vector<TokenId>() : text_of(prompt, request)) << turn;
      ASSERT_EQ(request.items(Role::kTarget) + request.items(Role::kDraft), turn + 1);
      request.turn(request.has_work(Role::kTarget) ? Role::kTarget : Role::kDraft);
    }
    EXPECT_EQ(text_of(prompt, request).size(), 40u);
  }
}

// A source that makes no guesses and keeps the tokens of each call.
class Listener : public DraftSource {
 public:
  explicit Listener(std::vector<std::vector<TokenId>>* calls) : calls_(calls) {}
  void observe(std::span<const TokenId> tokens) override {
    calls_->emplace_back(tokens.begin(), tokens.end());
  }
  void propose(std::span<const TokenId> /*path*/, int32_t /*count*/,
               std::vector<Candidate>& out) const override {
    out.clear();
  }

 private:
  std::vector<std::vector<TokenId>>* calls_;
};

// A source that guesses 30 of every 130 tokens, in a row, and is right.
class KnowsAPart : public DraftSource {
 public:
  explicit KnowsAPart(std::vector<TokenId> text) : text_(std::move(text)) {}
  void observe(std::span<const TokenId> tokens) override { observed_ += tokens.size(); }
  void propose(std::span<const TokenId> path, int32_t /*count*/,
               std::vector<Candidate>& out) const override {
    const size_t place = observed_ + path.size();
    out.clear();
    if (place % 130 >= 100 && place < text_.size()) out.push_back({text_[place], -0.1f});
  }

 private:
  std::vector<TokenId> text_;
  size_t observed_ = 0;
};

// In a batch, a request without guesses rests for longer and longer, and looks for guesses again
// soon after its source has begun to be right.
TEST(SerialTree, ARequestThatRestsWakesWhenItsSourceBecomesRight) {
  CostTable costs = simulated_costs(0.2, 1.1);
  costs.sequences = 16;
  costs.decision = 0.2f * costs.at(Role::kTarget, 1);
  const std::vector<TokenId> prompt = {5, 6, 7};
  SimulatedRequest plain(std::make_unique<Autoregressive>(), {}, prompt, 400);
  plain.run_to_end();
  std::vector<TokenId> text = text_of(prompt, plain);

  auto growth =
      std::make_unique<AdaptiveGrowth>(AdaptiveGrowth::Params{.has_draft_model = false}, nullptr);
  growth->on_costs(costs);
  SimulatedRequest request(
      std::make_unique<SerialTree>(SerialTreeConfig{.has_draft_model = false},
                                   std::make_unique<KnowsAPart>(text), std::move(growth)),
      {}, prompt, 400);
  while (!request.idle()) {
    request.turn(Role::kTarget);
    request.prepare();
  }
  EXPECT_EQ(text_of(prompt, request), text);
  EXPECT_LT(request.items(Role::kTarget), plain.items(Role::kTarget) - 60);
}

// Also if a request is rebuilt: the prompt by itself, then the earlier output.
TEST(GuessList, TheSourceIsToldThePromptFirst) {
  const std::vector<TokenId> known = {5, 6, 7, 8, 9};
  for (const int32_t prompt_tokens : {3, 5}) {
    for (const bool serial : {true, false}) {
      std::vector<std::vector<TokenId>> calls;
      auto source = std::make_unique<Listener>(&calls);
      auto growth = std::make_unique<BestGrowth>(BestGrowth::Params{.tops_up = !serial});
      std::unique_ptr<Strategy> strategy;
      if (serial) {
        strategy =
            std::make_unique<SerialTree>(SerialTreeConfig{}, std::move(source), std::move(growth));
      } else {
        strategy = std::make_unique<ParallelTree>(ParallelTreeConfig{}, std::move(source),
                                                  std::move(growth));
      }
      SimulatedRequest request(std::move(strategy), {}, {},
                               {.sequence = 3,
                                .tokens = known,
                                .prompt_tokens = prompt_tokens,
                                .max_tokens = 40,
                                .sampling = {}});
      request.run_to_end();
      const std::vector<TokenId> text = text_of(known, request);
      ASSERT_GT(calls.size(), 2u);
      const auto prompt_end = known.begin() + prompt_tokens;
      EXPECT_EQ(calls.front(), std::vector<TokenId>(known.begin(), prompt_end));
      std::vector<TokenId> heard;
      for (const std::vector<TokenId>& call : calls) {
        EXPECT_FALSE(call.empty());
        heard.insert(heard.end(), call.begin(), call.end());
      }
      EXPECT_TRUE(std::equal(heard.begin(), heard.end(), text.begin()));
    }
  }
}

TEST(SerialTree, LogprobsComeFromTheRowThatDrewTheToken) {
  Case c = simple("best", 0.6);
  const Outcome run = run_case(c);
  std::vector<TokenId> text = c.prompt;
  for (const EmittedToken& token : run.tokens) {
    const uint64_t history = StrictExecutor::hash_of(text);
    EXPECT_FLOAT_EQ(token.logprob, -static_cast<float>(AcceptanceModel::uniform(history)));
    text.push_back(token.token);
  }
}

}  // namespace
}  // namespace forerun
