// Helpers that tests of strategies share: they run a strategy on the strict executor, delay and
// reorder the results of both roles at random, and check the invariants.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <string>
#include <vector>

#include "simulation/simulated_request.h"
#include "strategies/strategy_table.h"

namespace forerun {

struct Outcome {
  std::vector<EmittedToken> tokens;
  std::vector<RoundRecord> rounds;
  StrategyStats stats;
  std::vector<std::string> breaches;
  std::vector<TokenId> draft_prefix;
  int64_t target_items = 0;
  int64_t draft_items = 0;
  int32_t changes = 0;
  int32_t largest_region[kNumRoles] = {0, 0};  // largest number of rows in the role's tree region
};

struct Case {
  SpeculationOptions options{.strategy = "serial_tree"};
  ModelFacts facts;
  bool record_rounds = false;
  AcceptanceModel models;
  std::vector<TokenId> prompt;
  int32_t max_tokens = 0;
  CostTable costs;
  std::vector<CostTable> later_costs;             // some of them are set between results
  std::vector<SpeculationOptions> later_options;  // the request switches to these between results
  std::optional<uint64_t> leave_out;              // see StrictExecutor
  int32_t stages = 0;                             // see StrictExecutor
  uint32_t delays = 0;           // seed for the order in which roles run and results arrive
  int32_t stop_after = 1 << 30;  // results handed over before the request is cancelled
};

// Runs a case. Neither role waits for the other: random numbers decide which one runs and when a
// result arrives. In a third of the runs one role is far slower.
inline Outcome run_case(const Case& c) {
  Outcome run;
  const auto plan = resolve_speculation(c.options, c.facts);
  EXPECT_TRUE(plan.ok()) << plan.status().message();
  if (!plan.ok()) return run;
  std::mt19937 rng(c.delays);
  // Only draft items in a batch may be left out.
  const auto told = [&c](CostTable costs) {
    costs.drafts_together = c.leave_out.has_value();
    return costs;
  };
  const StrategyParts parts{
      .shared = nullptr, .costs = told(c.costs), .record_rounds = c.record_rounds};
  const auto draws = [](const SpeculationOptions& o) { return o.accept == "rejection"; };
  const bool any_draws =
      draws(c.options) || std::any_of(c.later_options.begin(), c.later_options.end(), draws);
  SimulatedRequest request((*plan)->make_strategy(parts), c.models,
                           {.report_silent_items = rng() % 2 == 0,
                            .allow_twins = any_draws || c.facts.draft_vocab > 0,
                            .allow_dropped = !c.later_options.empty(),
                            .allow_dropped_guesses = c.options.strategy == "sparse_self",
                            .leave_out = c.leave_out,
                            .stages = c.stages},
                           {.sequence = 3,
                            .tokens = c.prompt,
                            .prompt_tokens = static_cast<int32_t>(c.prompt.size()),
                            .max_tokens = c.max_tokens,
                            .sampling = {}});
  const uint32_t target_chance = std::vector<uint32_t>{1, 8, 15}[rng() % 3];  // in sixteenths
  const auto target_next = [&] { return rng() % 16 < target_chance; };
  std::vector<WorkResult> late;
  int32_t handed = 0;
  while ((!request.idle() || !late.empty()) && handed < c.stop_after) {
    const Role role =
        request.has_work(Role::kTarget) && (!request.has_work(Role::kDraft) || target_next())
            ? Role::kTarget
            : Role::kDraft;
    if (request.has_work(role)) {
      if (auto result = request.run(role)) late.push_back(std::move(*result));
      int32_t& largest = run.largest_region[static_cast<size_t>(role)];
      largest = std::max(largest, request.executor().tree_region(role));
    }
    // Results may wait while other work runs, but keep their order within a role.
    if (late.empty() || (!request.idle() && rng() % 2 == 0)) continue;
    const Role wanted = target_next() ? Role::kTarget : Role::kDraft;
    size_t pick = 0;
    for (size_t i = late.size(); i-- > 0;) {
      if (late[i].role == wanted) pick = i;
    }
    const WorkResult result = std::move(late[pick]);
    late.erase(late.begin() + static_cast<std::ptrdiff_t>(pick));
    if (!c.later_costs.empty() && rng() % 4 == 0) {
      request.on_costs(told(c.later_costs[rng() % c.later_costs.size()]));
    }
    request.hand_over(result);
    ++handed;
    if (!c.later_options.empty() && rng() % 4 == 0) {
      const SpeculationOptions& next = c.later_options[rng() % c.later_options.size()];
      request.change_strategy(resolve_speculation(next, c.facts).value()->make_strategy(parts));
      ++run.changes;
    }
  }
  run.tokens = request.emitted();
  run.rounds = request.rounds();
  run.stats = request.stats();
  run.breaches = request.executor().breaches();
  run.draft_prefix = request.executor().prefix(Role::kDraft);
  run.target_items = request.items(Role::kTarget);
  run.draft_items = request.items(Role::kDraft);
  return run;
}

inline std::vector<TokenId> plain(const AcceptanceModel& models, const std::vector<TokenId>& prompt,
                                  int32_t max_tokens) {
  std::vector<TokenId> tokens = prompt;
  while (static_cast<int32_t>(tokens.size()) < max_tokens) {
    tokens.push_back(models.target_token(StrictExecutor::hash_of(tokens)));
  }
  return {tokens.begin() + static_cast<std::ptrdiff_t>(prompt.size()), tokens.end()};
}

inline void expect_lossless(const Case& c, const Outcome& run) {
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
  if (c.facts.draft_vocab == 0 && c.options.accept != "rejection") {
    // The draft's prefix must be the beginning of the verified text.
    std::vector<TokenId> text = c.prompt;
    text.insert(text.end(), expected.begin(), expected.end());
    ASSERT_LE(run.draft_prefix.size(), text.size());
    EXPECT_TRUE(std::equal(run.draft_prefix.begin(), run.draft_prefix.end(), text.begin()));
  }
}

// Returns models with a target that falls into loops, so that sources without a model find
// repetitions.
inline AcceptanceModel random_models(std::mt19937& rng) {
  AcceptanceModel models;
  models.seed = rng();
  models.vocab = 2 + static_cast<int32_t>(rng() % 60);
  models.draft_vocab = models.vocab;
  const double top = 0.1 * static_cast<double>(rng() % 11);
  models.rank_hit = {top, (1 - top) * 0.4, (1 - top) * 0.2, (1 - top) * 0.1};
  models.spread = 0.25 * static_cast<double>(rng() % 5);
  models.overconfidence = 0.5 + 0.5 * static_cast<double>(rng() % 4);
  return models;
}

// Returns costs that rise slowly with rows, for a draft that costs from a tenth of its target to
// nearly as much.
inline CostTable rising_costs(bool slow_draft, float row = 0.05f) {
  CostTable costs;
  for (int32_t rows = 1; rows <= CostTable::kMaxRows; ++rows) {
    const auto n = static_cast<float>(rows);
    costs.seconds[0][static_cast<size_t>(rows)] = 1e-3f * (1.0f + row * n);
    costs.seconds[1][static_cast<size_t>(rows)] =
        (slow_draft ? 8e-4f : 1e-4f) * (1.0f + 0.4f * row * n);
  }
  return costs;
}

// Returns a case with one of `policies` and random numbers for the options that it uses.
inline Case random_case(std::mt19937& rng, const std::vector<SpeculationOptions>& policies) {
  Case c;
  c.models = random_models(rng);
  c.options = policies[rng() % policies.size()];
  c.options.verify_tokens = 1 + static_cast<int32_t>(rng() % 24);
  c.options.draft_width = 1 + static_cast<int32_t>(rng() % 6);
  c.options.draft_depth = 1 + static_cast<int32_t>(rng() % 6);
  c.options.children_per_leaf = static_cast<int32_t>(rng() % 5);
  c.options.extra_draft_steps = static_cast<int32_t>(rng() % 2);
  c.options = without_unused(*find_strategy(c.options.strategy), c.options);
  c.record_rounds = rng() % 2 == 0;
  c.delays = static_cast<uint32_t>(rng());
  for (auto i = 1 + rng() % 20; i > 0; --i) {
    c.prompt.push_back(static_cast<TokenId>(rng() % static_cast<uint32_t>(c.models.vocab)));
  }
  if (!c.options.view.empty() || c.options.strategy == "sparse_self") {
    // Makes the text exceed the view's budget, at the start or later.
    c.options.view_budget = 192;
    c.prompt.resize(c.prompt.size() + 150 + rng() % 50);
    for (TokenId& token : c.prompt) {
      token = static_cast<TokenId>(rng() % static_cast<uint32_t>(c.models.vocab));
    }
  }
  c.max_tokens = static_cast<int32_t>(c.prompt.size() + 1 + rng() % 60);
  if (rng() % 3 == 0) c.costs = rising_costs(rng() % 2 == 0);
  if (rng() % 2 == 0) c.costs.min_row = 0.02f * c.costs.at(Role::kTarget, 1);
  // Simulates a changing load: rows nearly free, rows as expensive as Steps, no measurements.
  if (rng() % 3 == 0) {
    c.later_costs = {rising_costs(false, 0.001f), rising_costs(rng() % 2 == 0, 1.0f), CostTable{}};
  }
  for (CostTable& costs : c.later_costs) {
    costs.sources = {.text = rng() % 2 == 0, .drafts = rng() % 2 == 0};
  }
  if (rng() % 2 == 0) c.leave_out = rng();
  if (rng() % 2 == 0) c.stages = 1 + static_cast<int32_t>(rng() % 9);
  return c;
}

}  // namespace forerun
