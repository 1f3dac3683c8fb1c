#include "strategies/kv_ledger.h"

#include <gtest/gtest.h>

#include <vector>

#include "views/view_table.h"

namespace forerun {
namespace {

constexpr Role kDraft = Role::kDraft;

struct TreeNode {
  NodeId node = 0;
  NodeId parent = kNoNode;
  TokenId token = 0;
};

WorkItem rows_of(int32_t prefix_rows, const std::vector<TreeNode>& nodes) {
  WorkItem item;
  item.role = kDraft;
  for (int32_t row = 0; row < prefix_rows; ++row) item.rows.push_back({});
  for (const TreeNode& node : nodes) {
    item.rows.push_back({.token = node.token, .node = node.node, .parent = node.parent});
  }
  return item;
}

WorkItem edits_of(const std::vector<Edit>& edits) {
  WorkItem item;
  item.role = kDraft;
  item.edits = edits;
  return item;
}

Edit commit(std::vector<NodeId> nodes) { return {Edit::Kind::kCommit, std::move(nodes)}; }
Edit keep(std::vector<NodeId> nodes) { return {Edit::Kind::kKeep, std::move(nodes)}; }

// Text 1 2 3 is the prefix; it is followed by 4 with 5 and 6 below it, 7 below 6, and 8 beside 4.
class KvLedgerTest : public ::testing::Test {
 protected:
  KvLedgerTest() {
    ledger_.note(rows_of(3, {{10, kNoNode, 4}, {11, 10, 5}, {12, 10, 6}}));
    ledger_.note(rows_of(0, {{15, 12, 7}, {14, kNoNode, 8}}));
  }
  // The settling edits, as "commits, keeps".
  struct Settled {
    std::vector<NodeId> committed;
    bool clears = false;
  };
  Settled settle(const std::vector<TokenId>& tokens) {
    Settled settled;
    for (Edit& edit : ledger_.settle(kDraft, tokens)) {
      if (edit.kind == Edit::Kind::kCommit) {
        EXPECT_TRUE(settled.committed.empty());
        settled.committed = std::move(edit.nodes);
      } else {
        EXPECT_TRUE(edit.nodes.empty());
        settled.clears = true;
      }
    }
    return settled;
  }
  using Nodes = std::vector<NodeId>;

  KvLedger ledger_;
};

TEST_F(KvLedgerTest, CommitsWhatIsVerifiedAndDropsTheRest) {
  const Settled settled = settle({1, 2, 3, 4, 6, 7, 9});
  EXPECT_EQ(settled.committed, (Nodes{10, 12, 15}));
  EXPECT_TRUE(settled.clears);
  EXPECT_EQ(ledger_.prefix(kDraft), 6);
  EXPECT_EQ(ledger_.prefix(Role::kTarget), 0);
  EXPECT_EQ(ledger_.next_node(), 16u);
  EXPECT_TRUE(ledger_.settle(kDraft, std::vector<TokenId>{1, 2, 3, 4, 6, 7, 9}).empty());
}

TEST_F(KvLedgerTest, LeavesTheLastTokenToTheNextStrategy) {
  const Settled settled = settle({1, 2, 3, 4, 6});
  EXPECT_EQ(settled.committed, Nodes{10});
  EXPECT_TRUE(settled.clears);
  EXPECT_EQ(ledger_.prefix(kDraft), 4);
}

TEST_F(KvLedgerTest, DropsGuessesThatWereWrong) {
  const Settled settled = settle({1, 2, 3, 9, 9});
  EXPECT_TRUE(settled.committed.empty());
  EXPECT_TRUE(settled.clears);
  EXPECT_EQ(ledger_.prefix(kDraft), 3);
}

TEST_F(KvLedgerTest, FollowsCommits) {
  ledger_.note(edits_of({commit({10, 12})}));
  EXPECT_EQ(ledger_.prefix(kDraft), 5);
  // 7 continues the prefix now; 5 and 8 are gone.
  EXPECT_EQ(settle({1, 2, 3, 4, 6, 7, 9}).committed, Nodes{15});
  EXPECT_EQ(ledger_.prefix(kDraft), 6);
}

TEST_F(KvLedgerTest, FollowsKeepsInAnyOrderOfTheirNodes) {
  ledger_.note(edits_of({keep({10, 15, 12})}));
  ledger_.note(rows_of(0, {{20, 15, 9}}));
  EXPECT_EQ(settle({1, 2, 3, 4, 6, 7, 9, 9}).committed, (Nodes{10, 12, 15, 20}));
}

TEST_F(KvLedgerTest, FollowsKeepsOfNothing) {
  ledger_.note(edits_of({keep({})}));
  EXPECT_TRUE(ledger_.settle(kDraft, std::vector<TokenId>{1, 2, 3, 4, 6}).empty());
  EXPECT_EQ(ledger_.prefix(kDraft), 3);
}

// Rows that the target has run through a view never become text; a draft's may.
TEST_F(KvLedgerTest, NeverCommitsWhatTheTargetRanThroughAView) {
  for (const Role role : {Role::kTarget, Role::kDraft}) {
    KvLedger ledger;
    WorkItem item = rows_of(0, {{3, kNoNode, 4}});
    item.role = role;
    item.view = {.kind = &view_table().front(), .budget = 64};
    ledger.note(item);
    const std::vector<Edit> edits = ledger.settle(role, std::vector<TokenId>{4, 5});
    ASSERT_EQ(edits.size(), 1u);
    EXPECT_EQ(edits[0].kind, role == Role::kTarget ? Edit::Kind::kKeep : Edit::Kind::kCommit);
    EXPECT_EQ(ledger.prefix(role), role == Role::kTarget ? 0 : 1);
  }
}

TEST_F(KvLedgerTest, ForgetsASequenceThatIsGone) {
  ledger_.clear();
  EXPECT_EQ(ledger_.prefix(kDraft), 0);
  EXPECT_EQ(ledger_.next_node(), 0u);
  EXPECT_TRUE(ledger_.settle(kDraft, std::vector<TokenId>{1, 2, 3, 4}).empty());
}

}  // namespace
}  // namespace forerun
