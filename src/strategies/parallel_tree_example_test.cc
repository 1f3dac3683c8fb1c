// The worked example of SwiftSpec §3.1 and §3.2 (bs = 4, w = 2, d = 3), token by token and slot by
// slot. The paper's text names the inputs, the outputs and how many nodes are grown; the tree
// between them is ours: token t_n is the number n, t_0 the prompt.
//
//   t0 - t1 - t2 - t4                     first tree: t1 to t6
//         `-- t3 - t5 - t7 - t12          iteration 1 grows t7 to t12; t8 and t4 lead nowhere
//              |     `- t8
//              `-- t6 - t9 - t11 - t14 .. iteration 2 grows t13, t14, t15, t22, t23, t24
//                    `- t10 - t13 ..
//   after the miss: t16 - t17 - t19, t16 - t18 - (t20, t21)
#include <gtest/gtest.h>

#include <functional>
#include <map>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "strategies/draft_kv.h"
#include "strategies/request_driver.h"
#include "strategies/strategy_table.h"

namespace forerun {
namespace {

using Tokens = std::vector<TokenId>;

// A role's KV: the token in each slot, [prefix | tree region].
class KvSlots {
 public:
  void apply(const WorkItem& item) {
    for (const Edit& edit : item.edits) {
      edit.kind == Edit::Kind::kCommit ? commit(edit.nodes) : keep(edit.nodes);
    }
    for (const WorkRow& row : item.rows) {
      if (row.node == kNoNode) {
        ASSERT_TRUE(region_.empty());
        prefix_.push_back(row.token);
      } else {
        region_.push_back({row.node, row.token});
      }
    }
  }
  const Tokens& prefix() const { return prefix_; }
  Tokens region() const {
    Tokens tokens;
    for (const auto& [node, token] : region_) tokens.push_back(token);
    return tokens;
  }

 private:
  void commit(const std::vector<NodeId>& path) {
    for (NodeId node : path) {
      const auto slot = find(node);
      ASSERT_NE(slot, region_.end());
      prefix_.push_back(slot->second);
      region_.erase(slot);
    }
  }
  void keep(const std::vector<NodeId>& nodes) {
    std::erase_if(region_, [&](const auto& slot) {
      return std::find(nodes.begin(), nodes.end(), slot.first) == nodes.end();
    });
  }
  std::vector<std::pair<NodeId, TokenId>>::iterator find(NodeId node) {
    return std::find_if(region_.begin(), region_.end(),
                        [&](const auto& slot) { return slot.first == node; });
  }

  Tokens prefix_;
  std::vector<std::pair<NodeId, TokenId>> region_;
};

class WorkedExample : public ::testing::Test {
 protected:
  void SetUp() override {
    SpeculationOptions options;
    options.strategy = "parallel_tree";
    options.shape = "best";
    options.verify_tokens = 4;
    options.draft_width = 2;
    options.draft_depth = 3;
    driver_.set_strategy(resolve_speculation(options).value()->make_strategy(
        {.shared = nullptr, .costs = {}, .record_rounds = true}));
    const Tokens prompt = {0};
    driver_.start({.sequence = 1, .tokens = prompt, .max_tokens = 100, .sampling = {}}, accept_,
                  submit_);
  }

  KvSlots& slots(Role role) { return kv_[static_cast<size_t>(role)]; }

  // Lets the draft's step in flight run `leaves` and return the example's guesses below them.
  void draft_step(const Tokens& leaves) {
    const WorkItem item = std::exchange(draft_, {});
    WorkResult result;
    result.tag = item.tag;
    Tokens run;
    for (const WorkRow& row : item.rows) {
      if (row.want == Want::kNothing) continue;
      run.push_back(row.token);
      const auto guesses = guesses_.find(row.token);
      result.rows.push_back({.node = row.node, .position = row.position, .top = {}});
      if (guesses != guesses_.end()) result.rows.back().top = guesses->second;
    }
    EXPECT_EQ(run, leaves);
    driver_.on_result(result, accept_, submit_);
  }
  // Lets the target run `input` and sample `draws` after the nodes of these tokens.
  void verify(const Tokens& input, const std::map<TokenId, TokenId>& draws) {
    const WorkItem item = std::exchange(target_, {});
    WorkResult result;
    result.tag = item.tag;
    Tokens run;
    for (const WorkRow& row : item.rows) {
      run.push_back(row.token);
      const auto drawn = draws.find(row.token);
      result.rows.push_back({.node = row.node,
                             .position = row.position,
                             .token = drawn == draws.end() ? 99 : drawn->second,
                             .top = {}});
    }
    EXPECT_EQ(run, input);
    driver_.on_result(result, accept_, submit_);
  }
  bool target_is_busy() const { return !target_.rows.empty(); }
  bool draft_is_busy() const { return !draft_.rows.empty(); }

  // Runs to the point where the first tree exists and its verification has been sent.
  void play_prefill() {
    draft_step({0});
    draft_step({1});
    draft_step({2, 3});
    EXPECT_FALSE(draft_is_busy()) << "d steps are enough";
    verify({0}, {{0, 1}});
  }
  void play_first_iteration() {
    draft_step({5, 6});
    draft_step({9, 7});
    draft_step({4, 8});
    EXPECT_FALSE(draft_is_busy());
    verify({1, 2, 3, 5}, {{1, 3}, {3, 6}});
  }
  void play_second_iteration() {
    draft_step({10, 11});
    draft_step({13, 14});
    draft_step({15, 22});
    EXPECT_FALSE(draft_is_busy());
    verify({6, 9, 10, 11}, {{6, 9}, {9, 16}});
  }

  const std::map<TokenId, std::vector<Candidate>> guesses_ = {
      {0, {{1, -0.1f}}},
      {1, {{2, -0.5f}, {3, -0.6f}}},
      {2, {{4, -2.0f}}},
      {3, {{5, -0.4f}, {6, -1.2f}}},
      {5, {{7, -1.2f}, {8, -1.6f}}},
      {6, {{9, -0.3f}, {10, -1.0f}}},
      {9, {{11, -1.0f}}},
      {7, {{12, -3.0f}}},
      {10, {{13, -0.2f}}},
      {11, {{14, -0.2f}}},
      {13, {{15, -0.2f}}},
      {14, {{22, -0.2f}}},
      {15, {{23, -0.5f}}},
      {22, {{24, -0.5f}}},
      {16, {{17, -0.4f}, {18, -0.7f}}},
      {17, {{19, -3.0f}}},
      {18, {{20, -0.5f}, {21, -1.5f}}},
  };
  RequestDriver driver_;
  const std::function<bool(StrategyOutput&)> accept_ = [this](StrategyOutput& out) {
    for (const EmittedToken& token : out.tokens) text_.push_back(token.token);
    for (const RoundRecord& round : out.rounds) reroots_.push_back(round.reroot);
    return false;
  };
  const std::function<void(WorkItem)> submit_ = [this](WorkItem item) {
    slots(item.role).apply(item);
    (item.role == Role::kTarget ? target_ : draft_) = std::move(item);
  };
  WorkItem target_, draft_;  // in flight; without rows: none
  KvSlots kv_[kNumRoles];
  Tokens text_;
  std::vector<Reroot> reroots_;  // outcome of each round after the prefill
};

TEST_F(WorkedExample, TheDraftGuessesDuringThePrefill) {
  play_prefill();
  EXPECT_EQ(text_, (Tokens{1}));
  // The tree is t1 to t6: three of them have been run, t5 and t6 are in flight.
  EXPECT_EQ(slots(Role::kDraft).prefix(), (Tokens{0}));
  EXPECT_EQ(slots(Role::kDraft).region(), (Tokens{1, 2, 3, 5, 6}));
  EXPECT_EQ(slots(Role::kTarget).prefix(), (Tokens{0}));
  EXPECT_EQ(slots(Role::kTarget).region(), (Tokens{1, 2, 3, 5}));
}

TEST_F(WorkedExample, AHitRerootsAndKeepsTheSubtreesKv) {
  play_prefill();
  play_first_iteration();
  EXPECT_EQ(text_, (Tokens{1, 3, 6}));
  EXPECT_EQ(reroots_, (std::vector<Reroot>{Reroot::kHit}));
  ASSERT_TRUE(target_is_busy()) << "enough nodes remain: the next verification leaves at once";
  EXPECT_EQ(slots(Role::kTarget).prefix(), (Tokens{0, 1, 3}));
  EXPECT_EQ(slots(Role::kTarget).region(), (Tokens{6, 9, 10, 11}));
  // t1 and t3 are prefix, t6 and t9 stay; the step in flight runs t10 and t11.
  EXPECT_EQ(slots(Role::kDraft).prefix(), (Tokens{0, 1, 3}));
  EXPECT_EQ(slots(Role::kDraft).region(), (Tokens{6, 9, 10, 11}));
}

TEST_F(WorkedExample, AMissStartsAgainAndTopsUp) {
  play_prefill();
  play_first_iteration();
  play_second_iteration();
  EXPECT_EQ(text_, (Tokens{1, 3, 6, 9, 16}));
  EXPECT_EQ(reroots_, (std::vector<Reroot>{Reroot::kHit, Reroot::kMiss}));
  EXPECT_FALSE(target_is_busy()) << "one node is too few";
  EXPECT_EQ(slots(Role::kDraft).prefix(), (Tokens{0, 1, 3, 6, 9}));
  EXPECT_EQ(slots(Role::kDraft).region(), (Tokens{16}));
  draft_step({16});
  EXPECT_FALSE(target_is_busy()) << "three nodes are too few";
  draft_step({17, 18});
  ASSERT_TRUE(target_is_busy());
  EXPECT_EQ(slots(Role::kTarget).prefix(), (Tokens{0, 1, 3, 6, 9}));
  EXPECT_EQ(slots(Role::kTarget).region(), (Tokens{16, 17, 18, 20}));
  // Iteration 3 continues in the same way: t18 and t20 are sampled, and t20 becomes the root.
  EXPECT_EQ(slots(Role::kDraft).region(), (Tokens{16, 17, 18, 20, 21}));
  verify({16, 17, 18, 20}, {{16, 18}, {18, 20}, {20, 30}});
  EXPECT_EQ(text_, (Tokens{1, 3, 6, 9, 16, 18, 20, 30}));
}

// The target answers while the draft's second step of the round is in flight.
TEST_F(WorkedExample, AStepInFlightSurvivesAHit) {
  play_prefill();
  draft_step({5, 6});
  verify({1, 2, 3, 5}, {{1, 3}, {3, 6}});
  EXPECT_FALSE(target_is_busy()) << "t6, t9 and t10 are too few";
  // t9 was sent before; the next item drops t7.
  draft_step({9, 7});
  EXPECT_TRUE(target_is_busy());
  EXPECT_EQ(slots(Role::kTarget).region(), (Tokens{6, 9, 10, 11}));
  EXPECT_EQ(slots(Role::kDraft).prefix(), (Tokens{0, 1, 3}));
  EXPECT_EQ(slots(Role::kDraft).region(), (Tokens{6, 9, 10, 11}));
  play_second_iteration();
  EXPECT_EQ(text_, (Tokens{1, 3, 6, 9, 16}));
}

// The same example, but the draft step in flight is on a path that is rejected.
TEST_F(WorkedExample, AStepInFlightDoesNotHoldUpAMiss) {
  play_prefill();
  draft_step({5, 6});
  const WorkItem stale = draft_;
  verify({1, 2, 3, 5}, {{1, 50}});
  EXPECT_EQ(text_, (Tokens{1, 50}));
  ASSERT_EQ(draft_.rows.size(), 1u) << "the new root is sent behind the stale step";
  EXPECT_EQ(draft_.rows[0].token, 50);
  EXPECT_NE(draft_.tag, stale.tag);
  // The stale step's KV is dropped before the new root is written.
  EXPECT_EQ(slots(Role::kDraft).prefix(), (Tokens{0, 1}));
  EXPECT_EQ(slots(Role::kDraft).region(), (Tokens{50}));
}

// Figure 5: t1, t3, t7, t10 are verified, then t12 and t15; t17 and t18 stay.
TEST(DraftKv, VerifiedTokensJoinThePrefixAndTheSubtreeFollows) {
  TokenTree tree;
  DraftKv kv(/*draft_vocab=*/0);
  KvSlots slots;
  const auto run = [&](std::span<const NodeId> nodes, WorkItem item) {
    for (NodeId node : nodes) {
      tree.set_expansion(Role::kDraft, node, Expansion::kInFlight);
      item.rows.push_back({.token = tree.token(node),
                           .position = tree.position(node),
                           .node = node,
                           .parent = tree.parent(node)});
    }
    slots.apply(item);
  };
  const Tokens verified = {1, 3, 7, 10};
  const NodeId t10 = tree.reset(10, 3, 100);
  WorkItem first;
  kv.add_missing_rows(verified, 3, first);
  EXPECT_EQ(kv.prefix(), 3);
  run(std::vector<NodeId>{t10}, first);
  const NodeId t11 = tree.add_children(t10, std::vector<Candidate>{{11, -1.0f}, {12, -1.0f}});
  const NodeId t12 = t11 + 1;
  run(std::vector<NodeId>{t11, t12}, {});
  const NodeId t13 = tree.add_children(t11, std::vector<Candidate>{{13, -1.0f}});
  const NodeId t14 = tree.add_children(t12, std::vector<Candidate>{{14, -1.0f}, {15, -1.0f}});
  const NodeId t15 = t14 + 1;
  run(std::vector<NodeId>{t13, t14, t15}, {});
  const NodeId t16 = tree.add_children(t14, std::vector<Candidate>{{16, -1.0f}});
  const NodeId t17 = tree.add_children(t15, std::vector<Candidate>{{17, -1.0f}, {18, -1.0f}});
  run(std::vector<NodeId>{t16, t17, t17 + 1}, {});
  EXPECT_EQ(slots.prefix(), (Tokens{1, 3, 7}));
  EXPECT_EQ(slots.region(), (Tokens{10, 11, 12, 13, 14, 15, 16, 17, 18}));

  std::vector<NodeId> kept;
  kv.move_root(tree, std::vector<NodeId>{t10, t12}, t15, 15, 5, kept);
  EXPECT_EQ(kept, (std::vector<NodeId>{t15, t17, t17 + 1}));
  EXPECT_EQ(tree.root(), t15);
  EXPECT_EQ(kv.prefix(), 5);
  WorkItem next;
  kv.take_edits(next);
  slots.apply(next);
  EXPECT_EQ(slots.prefix(), (Tokens{1, 3, 7, 10, 12}));
  EXPECT_EQ(slots.region(), (Tokens{15, 17, 18}));
  WorkItem nothing;
  kv.take_edits(nothing);
  EXPECT_TRUE(nothing.edits.empty());
}

}  // namespace
}  // namespace forerun
