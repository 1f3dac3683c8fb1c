// every_policy() covers the tables, and each of its policies gives plain decoding's tokens on the
// strict executor, whichever side is late and whatever costs it receives.
#include "strategies/every_policy.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include "strategies/run_strategy_rig.h"

namespace forerun {
namespace {

bool names_the_model(const std::string& source) { return source.starts_with("model"); }

TEST(EveryPolicy, HasEveryEntryOfTheTables) {
  std::set<std::string> strategies, sources, rules, names, views;
  std::set<TreeShape::Kind> shapes;
  std::set<const DraftSourceEntry*> others;
  for (const SpeculationOptions& options : every_policy()) {
    const auto plan = resolve_speculation(options);
    ASSERT_TRUE(plan.ok()) << plan.status().message();
    EXPECT_TRUE(names.insert(policy_name(options)).second) << policy_name(options);
    strategies.insert(options.strategy);
    rules.insert(options.accept);
    sources.insert(options.source);
    views.insert(options.view);
    if (!options.shape.empty()) shapes.insert((*plan)->shape.kind);
    others.insert((*plan)->source.others.begin(), (*plan)->source.others.end());
  }
  for (const StrategyEntry& entry : strategy_table()) {
    EXPECT_TRUE(strategies.contains(entry.name)) << entry.name;
  }
  for (const TreeShapeEntry& entry : tree_shape_table()) {
    EXPECT_TRUE(shapes.contains(entry.kind)) << entry.name;
  }
  for (const DraftSourceEntry& entry : draft_source_table()) {
    EXPECT_TRUE(sources.contains(entry.name)) << entry.name;
    EXPECT_EQ(others.contains(&entry), !entry.is_model()) << entry.name;
  }
  for (const KvViewEntry& entry : view_table()) {
    EXPECT_TRUE(views.contains(entry.name)) << entry.name;
  }
  EXPECT_TRUE(rules.contains("match") && rules.contains("rejection"));
}

// The number of policies of each strategy, computed by hand.
TEST(EveryPolicy, HasTheWholeProduct) {
  const std::vector<std::string> shapes = every_tree_shape();
  const std::vector<std::string> sources = every_draft_source();
  const size_t with_model =
      static_cast<size_t>(std::count_if(sources.begin(), sources.end(), names_the_model));
  EXPECT_EQ(policies_of("autoregressive", every_policy()).size(), 1u);
  // Every shape but `levels` with every source, three static shapes (the chain is one) with rule
  // `rejection` and only the model, and every view with the first shape and source.
  const size_t views = view_table().size();
  EXPECT_EQ(policies_of("serial_tree", every_policy()).size(),
            (shapes.size() - 1) * sources.size() + 3 + views);
  // Each view without a source and with the first one, and the other sources with the first view.
  EXPECT_EQ(policies_of("sparse_self", every_policy()).size(), 2 * views + sources.size() - 1);
  // Shapes adaptive and best.
  EXPECT_EQ(policies_of("parallel_tree", every_policy()).size(), 2 * with_model);
  // Shapes adaptive and best, and levels, which only pipelined accepts.
  EXPECT_EQ(policies_of("pipelined", every_policy()).size(), 3 * sources.size());

  const std::vector<SpeculationOptions> alone = every_policy({.has_draft_model = false});
  EXPECT_EQ(policies_of("serial_tree", alone).size(),
            (shapes.size() - 1) * (sources.size() - with_model));
  EXPECT_EQ(policies_of("pipelined", alone).size(), 3 * (sources.size() - with_model));
  EXPECT_TRUE(policies_of("parallel_tree", alone).empty());
  for (const SpeculationOptions& options : alone) {
    EXPECT_FALSE(names_the_model(options.source)) << policy_name(options);
  }
}

TEST(EveryPolicy, SetsNumbersWhereTheyAreUsed) {
  for (const SpeculationOptions& options : every_policy({}, {.draft_depth = 5})) {
    const auto plan = resolve_speculation(options).value();
    EXPECT_EQ(options.draft_depth.has_value(),
              plan->strategy->uses(plan->shape, !plan->source.empty())
                  .has(SpeculationOption::kDraftDepth))
        << policy_name(options);
    EXPECT_EQ(options.draft_depth.value_or(5), 5);
  }
}

// Expects the round records to add up to the counts of drafted and accepted tokens.
void expect_rounds_add_up(const Outcome& run) {
  int64_t guesses = 0;
  int64_t accepted = 0;
  for (const RoundRecord& round : run.rounds) {
    ASSERT_FALSE(round.nodes.empty());
    guesses += static_cast<int64_t>(round.nodes.size()) - 1;
    for (const RoundRecord::Node& node : round.nodes) {
      accepted += node.parent >= 0 && node.accepted ? 1 : 0;
    }
  }
  EXPECT_EQ(guesses, run.stats.drafted_tokens);
  EXPECT_EQ(accepted, run.stats.accepted_tokens);
}

class EveryPolicyOn : public ::testing::TestWithParam<uint32_t> {};

TEST_P(EveryPolicyOn, TheStrictExecutorIsLosslessAndKeepsTheRules) {
  std::mt19937 rng(GetParam() + 7000);
  for (const SpeculationOptions& policy : every_policy()) {
    Case c = random_case(rng, {policy});
    SCOPED_TRACE(policy_name(policy));
    const Outcome run = run_case(c);
    expect_lossless(c, run);
    if (c.record_rounds) {
      expect_rounds_add_up(run);
    } else {
      EXPECT_TRUE(run.rounds.empty());
    }
    c.stop_after = static_cast<int32_t>(rng() % 12);
    expect_lossless(c, run_case(c));
    if (HasFailure()) return;
  }
}

// Switches from any policy to any others, at any time, on the same KV.
TEST_P(EveryPolicyOn, ChangesToOthersWhileItRuns) {
  std::mt19937 rng(GetParam() + 9000);
  const std::vector<SpeculationOptions> policies = every_policy();
  int32_t changes = 0;
  for (const SpeculationOptions& policy : policies) {
    Case c = random_case(rng, {policy});
    for (int32_t others = 0; others < 3; ++others) {
      c.later_options.push_back(policies[rng() % policies.size()]);
    }
    SCOPED_TRACE(policy_name(policy));
    const Outcome run = run_case(c);
    changes += run.changes;
    expect_lossless(c, run);
    if (c.record_rounds) expect_rounds_add_up(run);
    if (HasFailure()) return;
  }
  EXPECT_GT(changes, 100);
}

INSTANTIATE_TEST_SUITE_P(Seeds, EveryPolicyOn, ::testing::Range(0u, 12u));

}  // namespace
}  // namespace forerun
