// Tests the rows of an item and its time of entry, on trees and costs with an obvious answer.
#include "strategies/item_choice.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

namespace forerun {
namespace {

// Returns costs of a pass of `pass` seconds, a stage of `stage`, a link that takes `link` per row,
// and a draft step of 1.
CostTable costs_of(float pass, float stage, float link) {
  CostTable costs;
  for (size_t rows = 1; rows < costs.interval.size(); ++rows) {
    const auto n = static_cast<float>(rows);
    const float hops = pass / stage - 1.0f;
    costs.seconds[0][rows] = pass + hops * link * n;
    costs.seconds[1][rows] = 1.0f;
    costs.entry[rows] = stage;
    costs.interval[rows] = std::max(stage, link * n);
  }
  return costs;
}

class ItemChoiceTest : public ::testing::Test {
 protected:
  // 40 children of the root, which has been sent; the first one is accepted nearly half of the
  // time.
  ItemChoiceTest() : tree_(64) {
    tree_.reset(1, 10, 100);
    tree_.set_expansion(Role::kTarget, tree_.root(), Expansion::kInFlight);
    std::vector<Candidate> guesses;
    for (int32_t rank = 0; rank < 40; ++rank) {
      guesses.push_back({rank, std::log(0.45f * std::pow(0.7f, static_cast<float>(rank)))});
    }
    first_ = tree_.add_children(tree_.root(), guesses);
    for (NodeId node = first_; node < first_ + 40; ++node) nodes_.push_back(node);
  }
  size_t kept(const CostTable& costs) {
    choice_.on_costs(costs);
    std::vector<NodeId> nodes = nodes_;
    choice_.choose(tree_, nodes);
    EXPECT_FALSE(nodes.empty());
    EXPECT_EQ(nodes.front(), first_) << "the heaviest";
    EXPECT_TRUE(std::is_sorted(nodes.begin(), nodes.end()));
    return nodes.size();
  }

  TokenTree tree_;
  NodeId first_ = kNoNode;
  std::vector<NodeId> nodes_;
  ItemChoice choice_;
};

TEST_F(ItemChoiceTest, KeepsTheRowsThatPayForThemselves) {
  EXPECT_EQ(kept({}), 40u) << "not measured";
  EXPECT_EQ(kept(costs_of(80, 10, 0)), 40u) << "rows are free";
  const size_t fast = kept(costs_of(80, 10, 0.05f));
  const size_t slow = kept(costs_of(80, 10, 2));
  EXPECT_LT(fast, 40u);
  EXPECT_LT(slow, fast);
  EXPECT_EQ(kept(costs_of(80, 10, 100)), 1u);
  CostTable batch = costs_of(80, 10, 100);
  batch.sequences = 4;
  EXPECT_EQ(kept(batch), 40u) << "requests that share Steps share their rows in another way";
}

// The root has just been emitted and has not been sent; the draft runs it.
TEST_F(ItemChoiceTest, WaitsForTheDraftWhereAnIntervalIsLong) {
  tree_.set_expansion(Role::kTarget, tree_.root(), Expansion::kUnexpanded);
  const std::vector<NodeId> root = {tree_.root()};
  EXPECT_FALSE(choice_.waits(tree_, root, root, 1.0f)) << "not measured";
  choice_.on_costs(costs_of(80, 40, 0));
  EXPECT_TRUE(choice_.waits(tree_, root, root, 1.0f)) << "two stages";
  EXPECT_FALSE(choice_.waits(tree_, root, {}, 1.0f)) << "nothing to wait for";
  choice_.on_costs(costs_of(80, 1.5f, 0));
  EXPECT_FALSE(choice_.waits(tree_, root, root, 1.0f)) << "50 stages";
  // If nearly all tokens were sent in time, the text hardly ever ends where the draft is.
  choice_.on_costs(costs_of(80, 16, 0));
  EXPECT_TRUE(choice_.waits(tree_, root, root, 1.0f));
  for (int token = 0; token < 1000; ++token) choice_.observe_token(true);
  EXPECT_FALSE(choice_.waits(tree_, root, root, 1.0f));
}

}  // namespace
}  // namespace forerun
