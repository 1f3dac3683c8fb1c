// The tree that fills a pipeline, on the strict executor: lossless in any order of entries, results
// and drafts, and only nodes that do not descend from the verified text are dropped.
#include "strategies/pipelined.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "step/step_costs.h"
#include "strategies/every_policy.h"
#include "strategies/run_strategy_rig.h"
#include "strategies/simulate_stages_rig.h"

namespace forerun {
namespace {

// Returns costs of stages of 10 ms, links of `link_ms` for ten rows, and a draft step of 3 ms.
CostTable costs_of_stages(int32_t stages, float link_ms) {
  StepCosts costs;
  const int32_t count = std::max(stages, 1);
  costs.add(Role::kTarget, {1, 0}, 10e-3 * count);
  costs.add(Role::kTarget, {128, 0}, 10e-3 * count);
  costs.add(Role::kDraft, {1, 0}, 3e-3);
  costs.set_stages({.count = count, .link_seconds = 1e-3, .link_row_seconds = 1e-4 * link_ms});
  return costs.table();
}

class PipelinedCases : public ::testing::TestWithParam<uint32_t> {};

TEST_P(PipelinedCases, EmitPlainDecodingsTokensWhateverTheOrder) {
  std::mt19937 rng(GetParam());
  const auto policies = policies_of("pipelined", every_policy());
  for (const int32_t stages : {0, 1, 2, 3, 4, 8}) {
    for (const int32_t width : {1, 4, 16, 64}) {
      Case c = random_case(rng, policies);
      c.stages = stages;
      if (c.options.verify_tokens) c.options.verify_tokens = width;
      if (c.options.draft_width) c.options.draft_width = width;
      // Half of the cases know the costs of items, and may wait for drafts.
      if (rng() % 2 == 0) c.costs = costs_of_stages(stages, static_cast<float>(rng() % 20));
      SCOPED_TRACE(policy_name(c.options) + " stages " + std::to_string(stages) + " width " +
                   std::to_string(width));
      expect_lossless(c, run_case(c));
      c.stop_after = static_cast<int32_t>(rng() % 40);
      expect_lossless(c, run_case(c));
      if (HasFailure()) return;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Seeds, PipelinedCases, ::testing::Range(0u, 25u));

Case perfect(const std::string& shape, int32_t stages) {
  Case c;
  c.options = {.strategy = "pipelined", .source = "model", .shape = shape, .verify_tokens = 4};
  if (shape == "best") c.options.draft_width = 4;
  c.models.rank_hit = {1.0};
  c.models.spread = 0.0;
  c.prompt = {1, 2, 3};
  c.max_tokens = 203;
  c.stages = stages;
  return c;
}

double steps_per_token(const Case& c) {
  constexpr int32_t kTokens = 200;
  const SimulatedStages run = simulate_stages(c.options, c.models, kTokens, c.stages, 1);
  EXPECT_TRUE(run.breaches.empty()) << run.breaches.front();
  EXPECT_GE(run.tokens.size(), static_cast<size_t>(kTokens));
  return run.steps_per_token;
}

TEST(Pipelined, APerfectDraftBringsATokenAStep) {
  for (const char* shape : {"levels", "best"}) {
    Case c = perfect(shape, 8);
    EXPECT_LT(steps_per_token(c), 1.1) << shape;
    expect_lossless(c, run_case(c));
  }
}

TEST(Pipelined, AUselessDraftBringsATokenAPass) {
  for (const char* shape : {"levels", "best"}) {
    Case c = perfect(shape, 8);
    c.models.rank_hit = {0.0};
    EXPECT_NEAR(steps_per_token(c), 8.0, 0.1) << shape;
    const Outcome run = run_case(c);
    expect_lossless(c, run);
    EXPECT_EQ(run.stats.accepted_tokens, 0);
  }
}

TEST(Pipelined, ManyItemsAreUnderWay) {
  Case c = perfect("best", 8);
  SimulatedRequest request(resolve_speculation(c.options).value()->make_strategy({}), c.models,
                           {.stages = 8},
                           {.sequence = 1,
                            .tokens = c.prompt,
                            .prompt_tokens = 3,
                            .max_tokens = c.max_tokens,
                            .sampling = {}});
  int32_t most = 0;
  while (!request.idle()) {
    request.turn(request.has_work(Role::kDraft) ? Role::kDraft : Role::kTarget);
    most = std::max(most, request.executor().under_way());
  }
  EXPECT_GT(most, 3);
  EXPECT_TRUE(request.executor().breaches().empty());
}

// Returns the row counts of the items that a request sends in a batch of `sequences`, if a Step
// lasts longer with every `tile` rows.
std::set<size_t> rows_sent(const SpeculationOptions& options, int32_t sequences, int32_t tile,
                           const std::vector<double>& rank_hit = {0.5, 0.3, 0.1, 0.1},
                           int32_t prompt_rows = 0) {
  CostTable costs;
  costs.sequences = sequences;
  costs.prompt_rows = prompt_rows;
  for (size_t rows = 1; rows < costs.seconds[0].size(); ++rows) {
    const int32_t all = static_cast<int32_t>(rows) * sequences;
    const int32_t tiles = (all + tile - 1) / tile;
    costs.seconds[0][rows] = costs.seconds[1][rows] = static_cast<float>(tiles);
  }
  Case c = perfect("best", 8);
  c.models.rank_hit = rank_hit;
  StrategyParts parts;
  parts.costs = costs;
  auto strategy = resolve_speculation(options).value()->make_strategy(parts);
  StrictExecutor executor(c.models, {.max_tokens = c.max_tokens, .stages = 8});
  StrategyOutput out;
  std::set<size_t> sent;
  const auto take = [&] {
    for (WorkItem& item : out.work) {
      if (item.role == Role::kTarget && !item.rows.empty()) sent.insert(item.rows.size());
      executor.submit(std::move(item));
    }
    out.clear();
  };
  strategy->start({.sequence = 1,
                   .tokens = c.prompt,
                   .prompt_tokens = 3,
                   .max_tokens = c.max_tokens,
                   .sampling = {}},
                  out);
  take();
  sent.clear();  // the prompt
  while (!executor.idle()) {
    const Role role = executor.has_work(Role::kDraft) ? Role::kDraft : Role::kTarget;
    if (const auto result = executor.run(role)) strategy->on_result(*result, out);
    take();
  }
  return sent;
}

TEST(Pipelined, RequestsShareTheRowsThatAreNearlyFree) {
  const SpeculationOptions adaptive{.strategy = "pipelined", .source = "model"};
  EXPECT_EQ(*rows_sent(adaptive, 1, 64).rbegin(), 64u);
  EXPECT_EQ(*rows_sent(adaptive, 1, 1, {1.0}).rbegin(), 1u) << "a row costs a pass";
  EXPECT_EQ(*rows_sent(adaptive, 4, 64).rbegin(), 16u);
  EXPECT_EQ(*rows_sent(adaptive, 12, 64).rbegin(), 5u);
  EXPECT_EQ(*rows_sent(adaptive, 64, 64).rbegin(), 1u);
  EXPECT_EQ(*rows_sent(adaptive, 200, 64).rbegin(), 1u);
  // The width never exceeds the requested one.
  for (const char* shape : {"best", "levels"}) {
    SpeculationOptions fixed{.strategy = "pipelined", .shape = shape, .verify_tokens = 24};
    EXPECT_EQ(*rows_sent(fixed, 1, 1).rbegin(), 24u) << shape;
    EXPECT_EQ(*rows_sent(fixed, 2, 64).rbegin(), 24u) << shape;
    EXPECT_EQ(*rows_sent(fixed, 8, 64).rbegin(), 8u) << shape;
  }
}

TEST(Pipelined, RequestsLeaveRowsToPromptsThatWait) {
  const SpeculationOptions adaptive{.strategy = "pipelined", .source = "model"};
  const std::vector<double> rank_hit = {0.5, 0.3, 0.1, 0.1};
  EXPECT_EQ(*rows_sent(adaptive, 1, 64, rank_hit, 16).rbegin(), 48u);
  EXPECT_EQ(*rows_sent(adaptive, 4, 64, rank_hit, 16).rbegin(), 12u);
  EXPECT_EQ(*rows_sent(adaptive, 12, 64, rank_hit, 16).rbegin(), 3u);
  EXPECT_EQ(*rows_sent(adaptive, 64, 64, rank_hit, 16).rbegin(), 1u);
}

// A request that is alone in the pipeline sends an unlikely guess; beside others it does not.
TEST(Pipelined, HardlyLikelyGuessesLeaveThePipelineToOthers) {
  const SpeculationOptions best{.strategy = "pipelined", .shape = "best", .verify_tokens = 16};
  const std::vector<double> useless = {0.001, 0.001, 0.001, 0.001};
  EXPECT_EQ(*rows_sent(best, 1, 1024, useless).rbegin(), 16u);
  EXPECT_EQ(rows_sent(best, 4, 1024, useless), (std::set<size_t>{1}));
}

// After every turn the live tree has exactly the nodes ever sent below the verified text: checked
// by the items' rows and edits. It never has more rows than there is room for.
TEST(Pipelined, PruningKeepsExactlyTheLiveSubtree) {
  std::mt19937 rng(11);
  int64_t prunes = 0;
  int64_t full = 0;
  for (int32_t round = 0; round < 60; ++round) {
    AcceptanceModel models = random_models(rng);
    SpeculationOptions options{.strategy = "pipelined",
                               .source = "model",
                               .shape = round % 2 == 0 ? "best" : "levels",
                               .verify_tokens = 1 + static_cast<int32_t>(rng() % 32)};
    const auto room = round % 3 == 0 ? size_t{0} : 32 + rng() % 32;
    const ModelFacts facts{.tree_tokens = static_cast<int32_t>(room)};
    auto strategy = resolve_speculation(options, facts).value()->make_strategy({});
    StrictExecutor executor(models,
                            {.max_tokens = 80, .stages = 1 + static_cast<int32_t>(rng() % 8)});
    std::vector<TokenId> text = {1, 1};
    // Every node ever sent: the tokens from the text's beginning to the node.
    std::map<NodeId, std::vector<TokenId>> whole;
    std::set<NodeId> live;
    StrategyOutput out;
    const auto take = [&] {
      for (const EmittedToken& token : out.tokens) text.push_back(token.token);
      for (WorkItem& item : out.work) {
        if (item.role == Role::kTarget) {
          for (const Edit& edit : item.edits) {
            if (edit.kind == Edit::Kind::kCommit) {
              for (const NodeId node : edit.nodes) live.erase(node);
              continue;
            }
            ++prunes;
            std::set<NodeId> expected;
            for (const NodeId node : live) {
              const std::vector<TokenId>& path = whole[node];
              const size_t common = std::min(path.size(), text.size());
              if (path.size() >= text.size() &&
                  std::equal(path.begin(), path.begin() + static_cast<std::ptrdiff_t>(common),
                             text.begin())) {
                expected.insert(node);
              }
            }
            live = std::set<NodeId>(edit.nodes.begin(), edit.nodes.end());
            EXPECT_EQ(live, expected);
          }
          for (const WorkRow& row : item.rows) {
            if (row.node == kNoNode) continue;
            std::vector<TokenId> path;
            if (row.parent != kNoNode) {
              path = whole[row.parent];
            } else {
              path.assign(text.begin(), text.begin() + row.position);
            }
            path.push_back(row.token);
            whole[row.node] = path;
            live.insert(row.node);
          }
          if (room > 0) {
            EXPECT_LE(live.size(), room);
            full += static_cast<int64_t>(live.size() == room);
          }
        }
        executor.submit(std::move(item));
      }
      out.clear();
    };
    strategy->start(
        {.sequence = 1, .tokens = text, .prompt_tokens = 2, .max_tokens = 80, .sampling = {}}, out);
    take();
    while (!executor.idle() && !::testing::Test::HasFailure()) {
      const Role role = executor.has_work(Role::kDraft) && rng() % 2 == 0 ? Role::kDraft
                        : executor.has_work(Role::kTarget)                ? Role::kTarget
                                                                          : Role::kDraft;
      if (const auto result = executor.run(role)) strategy->on_result(*result, out);
      take();
    }
    EXPECT_EQ(text.size(), 80u);
    for (const std::string& breach : executor.breaches()) ADD_FAILURE() << breach;
  }
  EXPECT_GT(prunes, 500);
  EXPECT_GT(full, 50);
}

}  // namespace
}  // namespace forerun
