// SparseSelf on the strict executor: plain decoding's tokens, the expected rounds, and refusals.
#include "strategies/sparse_self.h"

#include <gtest/gtest.h>

#include <random>
#include <string>
#include <utility>
#include <vector>

#include "strategies/every_policy.h"
#include "strategies/run_strategy_rig.h"

namespace forerun {
namespace {

constexpr int32_t kBudget = 192;

class SparseSelfRandomCases : public ::testing::TestWithParam<uint32_t> {};

TEST_P(SparseSelfRandomCases, EmitPlainDecodingsTokensAndKeepTheRules) {
  std::mt19937 rng(GetParam() + 500);
  const std::vector<SpeculationOptions> policies = policies_of("sparse_self", every_exact_policy());
  ASSERT_FALSE(policies.empty());
  for (int i = 0; i < 20; ++i) {
    Case c = random_case(rng, policies);
    SCOPED_TRACE("case " + std::to_string(i));
    expect_lossless(c, run_case(c));
    c.stop_after = static_cast<int32_t>(rng() % 20);
    expect_lossless(c, run_case(c));
    if (HasFailure()) return;
  }
}

INSTANTIATE_TEST_SUITE_P(Seeds, SparseSelfRandomCases, ::testing::Range(0u, 25u));

// Returns a case with a prompt of `prompt` tokens and `added` output tokens, drafted with
// `agreement`.
Case simple(int32_t prompt, int32_t added, double agreement) {
  Case c;
  c.options = {.strategy = "sparse_self", .draft_depth = 3, .view_budget = kBudget};
  c.models.rank_hit = {agreement};
  c.models.spread = 0.0;
  c.prompt.resize(static_cast<size_t>(prompt));
  for (size_t i = 0; i < c.prompt.size(); ++i) c.prompt[i] = static_cast<TokenId>(i % 7);
  c.max_tokens = prompt + added;
  c.record_rounds = true;
  return c;
}

TEST(SparseSelf, ARoundIsGammaDraftStepsAndAVerificationOfOneRowMore) {
  // The prompt gives one token, each of the rounds four.
  const Outcome run = run_case(simple(kBudget, 1 + 8 * 4, 1.0));
  EXPECT_EQ(run.tokens.size(), 33u);
  EXPECT_EQ(run.stats.target_steps, 8);
  EXPECT_EQ(run.stats.draft_steps, 8 * 3);
  EXPECT_EQ(run.stats.drafted_tokens, 8 * 3);
  EXPECT_EQ(run.stats.accepted_tokens, 8 * 3);
  EXPECT_EQ(run.draft_items, 0) << "all work is the target's";
  for (const RoundRecord& round : run.rounds) EXPECT_EQ(round.nodes.size(), 4u);
  EXPECT_EQ(run.largest_region[0], 4);
}

TEST(SparseSelf, WrongGuessesCostStepsAndNothingElse) {
  const Case c = simple(kBudget, 20, 0.0);
  const Outcome run = run_case(c);
  expect_lossless(c, run);
  EXPECT_EQ(run.stats.accepted_tokens, 0);
  EXPECT_EQ(run.stats.target_steps, 19);
  // The last rounds have no room for all guesses.
  EXPECT_EQ(run.stats.draft_steps, 16 * 3 + 2 + 1);
}

TEST(SparseSelf, WhatTheBudgetHoldsIsDecodedPlainly) {
  const Outcome run = run_case(simple(kBudget - 20, 20, 1.0));
  EXPECT_EQ(run.stats.draft_steps, 0);
  EXPECT_EQ(run.stats.target_steps, 19);
  const Outcome longer = run_case(simple(kBudget - 20, 40, 1.0));
  EXPECT_GT(longer.stats.draft_steps, 0);
  EXPECT_EQ(longer.rounds[18].nodes.size(), 1u);
}

// Makes a SparseSelf with three guesses per round whose prompt ended in this Step. Returns the rows
// of the verification that ends its first round.
size_t rows_of_first_round(int64_t step) {
  SparseSelf strategy({.view = {.kind = &window_view(), .budget = kBudget}, .draft_depth = 3});
  const std::vector<TokenId> prompt(kBudget + 1, 5);
  StrategyOutput out;
  strategy.start(
      {.tokens = prompt, .prompt_tokens = kBudget + 1, .max_tokens = kBudget + 100, .sampling = {}},
      out);
  while (out.work.size() == 1) {
    const WorkItem item = std::exchange(out.work, {}).front();
    const bool is_prompt = item.rows.size() == prompt.size();
    if (item.rows.back().want == Want::kSample && !is_prompt) return item.rows.size();
    WorkResult result;
    result.tag = item.tag;
    result.step = step++;
    const WorkRow& last = item.rows.back();
    result.rows.push_back({.node = last.node, .position = last.position, .token = 7, .top = {}});
    if (last.want == Want::kTopK) result.rows.back().top.push_back({.token = 7});
    strategy.on_result(result, out);
  }
  return 0;
}

TEST(SparseSelf, TheFirstRoundEndsInTheStepInWhichOthersVerify) {
  // Verifications run in Steps 3, 7, 11 and so on.
  EXPECT_EQ(rows_of_first_round(7), 4u);
  EXPECT_EQ(rows_of_first_round(8), 3u);
  EXPECT_EQ(rows_of_first_round(9), 2u);
  EXPECT_EQ(rows_of_first_round(10), 1u);
  EXPECT_EQ(rows_of_first_round(11), 4u);
}

// Returns a case with a draft model that always predicts the view's token, and a view that predicts
// the target's token with `agreement`.
Case hierarchy(int32_t added, double agreement) {
  Case c = simple(kBudget, added, agreement);
  c.options.source = "model";
  c.options.draft_depth = 8;
  c.options.draft_width = 4;
  return c;
}

TEST(SparseSelfWithASource, DraftsAsManyTokensAStepAsAreConfirmed) {
  // A round has two checks of four rows, three of them guesses, and a verification of nine rows.
  const Case c = hierarchy(1 + 5 * 9, 1.0);
  const Outcome run = run_case(c);
  expect_lossless(c, run);
  EXPECT_EQ(run.stats.target_steps, 5);
  EXPECT_EQ(run.stats.drafted_tokens, 5 * 8);
  EXPECT_EQ(run.stats.accepted_tokens, 5 * 8);
  EXPECT_EQ(run.target_items, 1 + 5 * (2 + 1));
  EXPECT_EQ(run.draft_items, 5 * 2 * 3);
  EXPECT_EQ(run.stats.draft_steps, 5 * 2 * (1 + 3));
  for (const RoundRecord& round : run.rounds) EXPECT_EQ(round.nodes.size(), 9u);
}

TEST(SparseSelfWithASource, EndsAtItsLength) {
  for (int32_t added = 1; added <= 24; ++added) {
    for (const double agreement : {0.0, 0.5, 1.0}) {
      SCOPED_TRACE(std::to_string(added) + " tokens, " + std::to_string(agreement));
      const Case c = hierarchy(added, agreement);
      expect_lossless(c, run_case(c));
    }
  }
}

TEST(SparseSelfWithASource, KeepsNoKvOfRefusedGuesses) {
  for (const double agreement : {0.2, 0.5, 0.8}) {
    Case c = hierarchy(60, agreement);
    c.options.draft_depth = 16;
    const Outcome run = run_case(c);
    expect_lossless(c, run);
    // The root, a chain that lacked one token, and a last check of four.
    EXPECT_LE(run.largest_region[0], 1 + 15 + 4);
    EXPECT_LE(run.largest_region[1], 1 + 15 + 4);
  }
}

TEST(SparseSelfWithASource, RefusedGuessesCostRowsAndNothingElse) {
  // The view is always right and never agrees with the source.
  Case c = hierarchy(60, 1.0);
  c.models.vocab = 50;
  c.options.source = "suffix";
  const Outcome with_source = run_case(c);
  expect_lossless(c, with_source);
  EXPECT_EQ(with_source.draft_items, 0) << "no model drafts";
  c.options.source = "";
  c.options.draft_width.reset();
  const Outcome alone = run_case(c);
  EXPECT_LE(with_source.target_items, alone.target_items);
  EXPECT_EQ(with_source.stats.accepted_tokens, alone.stats.accepted_tokens);
}

TEST(SparseSelfWithASource, LetsTheTextSoFarGuess) {
  // A text that repeats itself after six tokens.
  Case c = hierarchy(120, 1.0);
  c.models.vocab = 2;
  c.models.draft_vocab = 2;
  c.options.source = "suffix";
  const Outcome run = run_case(c);
  expect_lossless(c, run);
  EXPECT_LT(run.stats.draft_steps, run.stats.drafted_tokens) << "some were confirmed";
}

TEST(SparseSelfWithASource, WithoutAViewThatHelpsIsDecodedPlainly) {
  Case c = hierarchy(20, 1.0);
  c.prompt.resize(kBudget - 20);
  c.max_tokens = kBudget;
  const Outcome run = run_case(c);
  EXPECT_EQ(run.stats.draft_steps, 0);
  EXPECT_EQ(run.draft_items, 0);
  EXPECT_EQ(run.stats.target_steps, 19);
}

TEST(SparseSelf, RefusesWhatCannotWorkWithWhatIsAccepted) {
  const auto message = [](const SpeculationOptions& options, const ModelFacts& models = {}) {
    const auto plan = resolve_speculation(options, models);
    EXPECT_FALSE(plan.ok());
    return plan.ok() ? std::string() : plan.status().message();
  };
  EXPECT_EQ(message({.strategy = "sparse_self", .view = "telescope"}),
            "view 'telescope'; accepted: " + view_names());
  EXPECT_EQ(message({.strategy = "sparse_self", .view_budget = 100}),
            "view_budget: found 100; accepted with view streaming_llm: at least 192 tokens, a "
            "block of 64 for the sinks and two blocks for the window");
  EXPECT_EQ(message({.strategy = "sparse_self", .view_budget = 2048}, {.max_context = 2048}),
            "view_budget: found 2048; accepted: less than the context's 2048 tokens");
  EXPECT_EQ(message({.strategy = "sparse_self"}, {.has_window = {true, false}}),
            "view 'streaming_llm': the target model has layers with a sliding window, which see "
            "the last tokens only; accepted with this model: no view");
  EXPECT_EQ(
      message({.strategy = "sparse_self", .view = "pqcache"}, {.quantizes_keys = {false, true}}),
      "view 'pqcache': the target model's devices do not find KV by quantized keys; accepted with "
      "these devices: " +
          view_names(KvViewNeeds::kSelection));
  EXPECT_EQ(message({.strategy = "sparse_self", .view = "vegas"}, {.selects_kv = {false, true}}),
            "view 'vegas': the target model's devices do not choose and gather KV; accepted with "
            "these devices: streaming_llm");
  EXPECT_EQ(message({.strategy = "sparse_self", .source = "oracle"}),
            "draft source 'oracle': unknown part 'oracle'; accepted: model, ngram, suffix, or "
            "several joined by '+'");
  EXPECT_EQ(message({.strategy = "sparse_self", .source = "model"}, {.has_draft_model = false}),
            "draft source 'model' needs a draft model, and none is loaded; accepted without one: "
            "ngram, suffix, or several joined by '+'");
  EXPECT_EQ(message({.strategy = "sparse_self", .draft_depth = 0}),
            "draft_depth: found 0; accepted: 1 to 64");
  EXPECT_NE(
      message({.strategy = "sparse_self", .shape = "chain"}).find("it uses source, draft_depth"),
      std::string::npos);
}

TEST(SerialTree, GivesItsDraftAView) {
  const auto refusal = [](const SpeculationOptions& options, const ModelFacts& models = {}) {
    const auto plan = resolve_speculation(options, models);
    EXPECT_FALSE(plan.ok());
    return plan.ok() ? std::string() : plan.status().message();
  };
  const SpeculationOptions seen = {.strategy = "serial_tree", .view = "streaming_llm"};
  EXPECT_EQ(refusal(seen, {.has_window = {false, true}}),
            "view 'streaming_llm': the draft model has layers with a sliding window, which see the "
            "last tokens only; accepted with this model: no view");
  EXPECT_TRUE(resolve_speculation(seen, {.has_window = {true, false}}).ok());
  EXPECT_EQ(refusal({.strategy = "serial_tree", .source = "suffix", .view = "streaming_llm"}),
            "draft source: found 'suffix' with view 'streaming_llm', which chooses from the draft "
            "model's KV; accepted with this view: model, or model joined to others by '+'");
  EXPECT_EQ(
      refusal({.strategy = "serial_tree", .view_budget = 512}),
      "view_budget: found 512, but no view; accepted: a budget together with one of the views " +
          view_names());
}

}  // namespace
}  // namespace forerun
