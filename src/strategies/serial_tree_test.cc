// Every shape and source against plain decoding, on the strict executor.
#include "strategies/serial_tree.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <string>
#include <vector>

#include "strategies/fake_executor.h"
#include "strategies/make_strategy.h"

namespace forerun {
namespace {

const std::vector<std::string> kShapes = {"adaptive", "best", "chain", "1,1,3,1,1", "<2,2>"};

struct Outcome {
  std::vector<EmittedToken> tokens;
  std::vector<RoundRecord> rounds;
  StrategyStats stats;
  std::vector<std::string> breaches;
  std::vector<TokenId> draft_prefix;
  int64_t target_items = 0;
  int64_t draft_items = 0;
};

struct Case {
  StrategyOptions options;
  FakeModels models;
  std::vector<TokenId> prompt;
  int32_t max_tokens = 0;
  CostTable costs;
  uint32_t delays = 0;           // seed of the order in which roles run
  int32_t stop_after = 1 << 30;  // results handed over before the request is cancelled
};

Outcome play(const Case& c) {
  Outcome run;
  auto made = make_strategy(c.options, nullptr, c.costs);
  EXPECT_TRUE(made.ok()) << made.status().message();
  if (!made.ok()) return run;
  Strategy& strategy = **made;
  std::mt19937 rng(c.delays);
  FakeExecutor executor(
      c.models, {.max_tokens = c.max_tokens,
                 .report_silent_items = rng() % 2 == 0,
                 .allow_twins = c.options.accept == "rejection" || c.options.draft_vocab > 0});
  RequestView request{
      .sequence = 3, .tokens = c.prompt, .max_tokens = c.max_tokens, .sampling = {}};
  StrategyOutput out;
  const auto deliver = [&] {
    for (WorkItem& item : out.work) {
      EXPECT_EQ(item.sequence, 3u);
      (item.role == Role::kTarget ? run.target_items : run.draft_items) += 1;
      executor.submit(std::move(item));
    }
    run.tokens.insert(run.tokens.end(), out.tokens.begin(), out.tokens.end());
    run.rounds.insert(run.rounds.end(), out.rounds.begin(), out.rounds.end());
    out.clear();
  };
  strategy.start(request, out);
  deliver();
  std::vector<WorkResult> late;
  int32_t handed = 0;
  while ((!executor.idle() || !late.empty()) && handed < c.stop_after) {
    const Role role =
        executor.has_work(Role::kTarget) && (!executor.has_work(Role::kDraft) || rng() % 2 == 0)
            ? Role::kTarget
            : Role::kDraft;
    if (executor.has_work(role)) {
      if (auto result = executor.run(role)) late.push_back(std::move(*result));
    }
    // Results may wait while other work runs; of one role they keep their order.
    if (late.empty() || (!executor.idle() && rng() % 2 == 0)) continue;
    size_t pick = rng() % late.size();
    for (size_t i = 0; i < pick; ++i) {
      if (late[i].role == late[pick].role) pick = i;
    }
    const WorkResult result = std::move(late[pick]);
    late.erase(late.begin() + static_cast<std::ptrdiff_t>(pick));
    strategy.on_result(result, out);
    ++handed;
    deliver();
  }
  run.stats = strategy.stats();
  run.breaches = executor.breaches();
  run.draft_prefix = executor.prefix(Role::kDraft);
  return run;
}

std::vector<TokenId> plain(const FakeModels& models, const std::vector<TokenId>& prompt,
                           int32_t max_tokens) {
  std::vector<TokenId> tokens = prompt;
  while (static_cast<int32_t>(tokens.size()) < max_tokens) {
    tokens.push_back(models.target_token(FakeExecutor::hash_of(tokens)));
  }
  return {tokens.begin() + static_cast<std::ptrdiff_t>(prompt.size()), tokens.end()};
}

void expect_lossless(const Case& c, const Outcome& run) {
  const std::vector<TokenId> expected = plain(c.models, c.prompt, c.max_tokens);
  std::vector<TokenId> tokens;
  for (const EmittedToken& token : run.tokens) tokens.push_back(token.token);
  if (c.stop_after == 1 << 30) {
    ASSERT_EQ(tokens, expected);
  } else {
    ASSERT_LE(tokens.size(), expected.size());
    ASSERT_TRUE(std::equal(tokens.begin(), tokens.end(), expected.begin()));
  }
  for (const std::string& breach : run.breaches) ADD_FAILURE() << breach;
  int64_t drafted = 0;
  for (const EmittedToken& token : run.tokens) drafted += token.drafted ? 1 : 0;
  EXPECT_EQ(run.stats.emitted_tokens, static_cast<int64_t>(tokens.size()));
  EXPECT_EQ(run.stats.accepted_tokens, drafted);
  EXPECT_LE(run.stats.accepted_tokens, run.stats.drafted_tokens);
  if (c.options.draft_vocab == 0 && c.options.accept == "match") {
    // Whatever the draft holds as prefix is the beginning of the verified text.
    std::vector<TokenId> text = c.prompt;
    text.insert(text.end(), expected.begin(), expected.end());
    ASSERT_LE(run.draft_prefix.size(), text.size());
    EXPECT_TRUE(std::equal(run.draft_prefix.begin(), run.draft_prefix.end(), text.begin()));
  }
}

// A target that falls into loops, so that sources without a model have something to find.
FakeModels random_models(std::mt19937& rng) {
  FakeModels models;
  models.seed = rng();
  models.vocab = 2 + static_cast<int32_t>(rng() % 60);
  models.draft_vocab = models.vocab;
  const double top = 0.1 * static_cast<double>(rng() % 11);
  models.rank_hit = {top, (1 - top) * 0.4, (1 - top) * 0.2, (1 - top) * 0.1};
  models.spread = 0.25 * static_cast<double>(rng() % 5);
  models.honesty = 0.5 + 0.5 * static_cast<double>(rng() % 4);
  return models;
}

Case random_case(std::mt19937& rng) {
  Case c;
  c.models = random_models(rng);
  const std::vector<std::string> sources = {"model",        "ngram",       "suffix",
                                            "model+suffix", "model+ngram", "ngram+suffix"};
  c.options.shape = kShapes[rng() % kShapes.size()];
  c.options.source = sources[rng() % sources.size()];
  c.options.verify_tokens = 1 + static_cast<int32_t>(rng() % 24);
  c.options.draft_width = 1 + static_cast<int32_t>(rng() % 6);
  c.options.draft_depth = 1 + static_cast<int32_t>(rng() % 6);
  c.options.children_per_leaf = static_cast<int32_t>(rng() % 5);
  c.options.record_rounds = rng() % 2 == 0;
  c.delays = static_cast<uint32_t>(rng());
  for (auto i = 1 + rng() % 20; i > 0; --i) {
    c.prompt.push_back(static_cast<TokenId>(rng() % static_cast<uint32_t>(c.models.vocab)));
  }
  c.max_tokens = static_cast<int32_t>(c.prompt.size() + 1 + rng() % 60);
  if (rng() % 3 == 0) {
    const bool slow_draft = rng() % 2 == 0;
    for (int32_t rows = 1; rows <= CostTable::kMaxRows; ++rows) {
      const auto n = static_cast<float>(rows);
      c.costs.seconds[0][static_cast<size_t>(rows)] = 1e-3f * (1.0f + 0.05f * n);
      c.costs.seconds[1][static_cast<size_t>(rows)] =
          (slow_draft ? 8e-4f : 1e-4f) * (1.0f + 0.02f * n);
    }
  }
  return c;
}

class RandomCases : public ::testing::TestWithParam<uint32_t> {};

TEST_P(RandomCases, EmitPlainDecodingsTokensAndKeepTheRules) {
  std::mt19937 rng(GetParam());
  for (int i = 0; i < 40; ++i) {
    Case c = random_case(rng);
    SCOPED_TRACE(c.options.shape + " " + c.options.source + " case " + std::to_string(i));
    const Outcome run = play(c);
    expect_lossless(c, run);
    if (HasFailure()) return;
  }
}

TEST_P(RandomCases, MayBeCancelledAnywhere) {
  std::mt19937 rng(GetParam() + 1000);
  for (int i = 0; i < 10; ++i) {
    Case c = random_case(rng);
    c.stop_after = static_cast<int32_t>(rng() % 20);
    SCOPED_TRACE(c.options.shape + " " + c.options.source);
    expect_lossless(c, play(c));
  }
}

TEST_P(RandomCases, RejectionFollowsTheAcceptedPath) {
  std::mt19937 rng(GetParam() + 2000);
  for (int i = 0; i < 10; ++i) {
    Case c = random_case(rng);
    c.options.shape = std::vector<std::string>{"chain", "2,2,1", "<3,1>"}[rng() % 3];
    c.options.source = "model";
    c.options.accept = "rejection";
    SCOPED_TRACE(c.options.shape);
    expect_lossless(c, play(c));
  }
}

TEST_P(RandomCases, ASmallerDraftVocabularyChangesNothing) {
  std::mt19937 rng(GetParam() + 3000);
  for (int i = 0; i < 10; ++i) {
    Case c = random_case(rng);
    c.models.draft_vocab = 1 + static_cast<int32_t>(rng() % static_cast<uint32_t>(c.models.vocab));
    c.options.draft_vocab = c.models.draft_vocab;
    c.options.target_vocab = c.models.vocab;
    SCOPED_TRACE(c.options.shape + " " + c.options.source);
    expect_lossless(c, play(c));
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
  c.options.record_rounds = true;
  const Outcome run = play(c);
  expect_lossless(c, run);
  // 60 tokens: one from the prefill, then 5 a round; the last round has 4.
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

TEST(SerialTree, AUselessDraftStillEmitsATokenARound) {
  const Case c = simple("chain", 0.0);
  const Outcome run = play(c);
  expect_lossless(c, run);
  EXPECT_EQ(run.stats.target_steps, 59);
  EXPECT_EQ(run.stats.accepted_tokens, 0);
}

TEST(SerialTree, ATreeBranchesAndBeatsTheChain) {
  Case tree = simple("best", 0.4);
  tree.models.rank_hit = {0.4, 0.3, 0.2};
  tree.max_tokens = 400;
  tree.options.verify_tokens = 16;
  tree.options.record_rounds = true;
  const Outcome wide = play(tree);
  expect_lossless(tree, wide);
  const bool branches = std::any_of(wide.rounds.begin(), wide.rounds.end(), [](const auto& round) {
    return round.nodes.size() > 2 && round.nodes[1].parent == 0 && round.nodes[2].parent == 0;
  });
  EXPECT_TRUE(branches);
  Case chain = tree;
  chain.options.shape = "chain";
  EXPECT_LT(wide.stats.target_steps, play(chain).stats.target_steps * 8 / 10);
}

TEST(SerialTree, OneTokenOfPromptAndOneOfOutput) {
  for (const std::string& shape : kShapes) {
    for (int32_t output = 0; output <= 4; ++output) {
      Case c = simple(shape, 1.0);
      c.prompt = {9};
      c.max_tokens = 1 + output;
      SCOPED_TRACE(shape + " " + std::to_string(output));
      const Outcome run = play(c);
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
    c.options.has_draft_model = false;
    c.models.vocab = 1;  // the same token for ever
    c.models.draft_vocab = 1;
    c.max_tokens = 203;
    const Outcome run = play(c);
    expect_lossless(c, run);
    EXPECT_EQ(run.draft_items, 0);
    EXPECT_LT(run.stats.target_steps, 50) << source;
  }
}

TEST(SerialTree, LogprobsComeFromTheRowThatDrewTheToken) {
  Case c = simple("best", 0.6);
  const Outcome run = play(c);
  std::vector<TokenId> text = c.prompt;
  for (const EmittedToken& token : run.tokens) {
    const uint64_t history = FakeExecutor::hash_of(text);
    EXPECT_FLOAT_EQ(token.logprob, -static_cast<float>(FakeModels::uniform(history)));
    text.push_back(token.token);
  }
}

}  // namespace
}  // namespace forerun
