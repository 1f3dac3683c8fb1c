#include "tree/token_tree.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <random>
#include <vector>

namespace forerun {
namespace {

// A node of the reference tree, which is a plain list of nodes that know their parent's id.
struct NaiveNode {
  NodeId id = 0;
  NodeId parent = kNoNode;
  TokenId token = 0;
  float logprob = 0.0f;
  int32_t position = 0;
  bool drafted = false;  // the draft has run it or is running it
};

class NaiveTree {
 public:
  std::vector<NaiveNode> nodes;
  int32_t max_position = 0;

  const NaiveNode& get(NodeId id) const {
    return *std::find_if(nodes.begin(), nodes.end(), [&](const auto& n) { return n.id == id; });
  }
  NaiveNode& get(NodeId id) {
    return *std::find_if(nodes.begin(), nodes.end(), [&](const auto& n) { return n.id == id; });
  }
  std::vector<NodeId> path(NodeId id) const {
    std::vector<NodeId> result;
    for (; id != kNoNode; id = get(id).parent) result.insert(result.begin(), id);
    return result;
  }
  float weight(NodeId id) const {
    float sum = 0.0f;
    for (NodeId step : path(id)) {
      if (get(step).parent != kNoNode) sum += get(step).logprob;
    }
    return sum;
  }
  bool descends(NodeId id, NodeId from) const {
    const auto line = path(id);
    return std::find(line.begin(), line.end(), from) != line.end();
  }
  NodeId walk(const std::vector<TokenId>& tokens) const {
    NodeId at = nodes[0].id;
    for (TokenId token : tokens) {
      const auto next = std::find_if(nodes.begin(), nodes.end(), [&](const NaiveNode& n) {
        return n.parent == at && n.token == token;
      });
      if (next == nodes.end()) return kNoNode;
      at = next->id;
    }
    return at;
  }
  void reroot(NodeId id) {
    std::vector<NaiveNode> kept;
    for (const NaiveNode& node : nodes) {
      if (descends(node.id, id)) kept.push_back(node);
    }
    nodes = kept;
    nodes[0].parent = kNoNode;
  }
  std::vector<NodeId> by_weight(std::vector<NodeId> ids) const {
    std::stable_sort(ids.begin(), ids.end(),
                     [&](NodeId a, NodeId b) { return weight(a) > weight(b); });
    return ids;
  }
  std::vector<NodeId> best_leaves(int32_t width) const {
    std::vector<NodeId> open;
    for (const NaiveNode& node : nodes) {
      const bool reachable = node.parent == kNoNode || get(node.parent).drafted;
      if (!node.drafted && reachable && node.position < max_position) open.push_back(node.id);
    }
    open = by_weight(open);
    if (static_cast<int32_t>(open.size()) > width) open.resize(static_cast<size_t>(width));
    return open;
  }
  std::vector<NodeId> best_subtree(int32_t count) const {
    std::vector<NodeId> ids;
    for (const NaiveNode& node : nodes) ids.push_back(node.id);
    ids = by_weight(ids);
    if (static_cast<int32_t>(ids.size()) > count) ids.resize(static_cast<size_t>(count));
    std::sort(ids.begin(), ids.end());
    return ids;
  }
};

void expect_same(const TokenTree& tree, const NaiveTree& naive) {
  ASSERT_EQ(tree.size(), static_cast<int32_t>(naive.nodes.size()));
  std::vector<NodeId> all;
  for (int32_t row = 0; row < tree.size(); ++row) {
    const NaiveNode& expected = naive.nodes[static_cast<size_t>(row)];
    const NodeId id = tree.node_at(row);
    all.push_back(id);
    ASSERT_EQ(id, expected.id);
    ASSERT_EQ(tree.row(id), row);
    ASSERT_EQ(tree.parent(id), expected.parent);
    ASSERT_EQ(tree.token(id), expected.token);
    ASSERT_EQ(tree.position(id), expected.position);
    ASSERT_FLOAT_EQ(tree.weight(id), naive.weight(id));
    std::vector<NodeId> children;
    for (NodeId c = tree.first_child(id); c != kNoNode; c = tree.next_sibling(c)) {
      children.push_back(c);
    }
    std::vector<NodeId> expected_children;
    for (const NaiveNode& node : naive.nodes) {
      if (node.parent == id) expected_children.push_back(node.id);
    }
    ASSERT_EQ(children, expected_children);
  }
  std::vector<uint64_t> bits;
  tree.mask(all, bits);
  std::vector<int32_t> begins;
  std::vector<NodeId> lists;
  tree.ancestors(all, begins, lists);
  const auto words = static_cast<size_t>(tree.mask_words());
  for (size_t i = 0; i < all.size(); ++i) {
    for (size_t j = 0; j < all.size(); ++j) {
      const bool bit = (bits[i * words + j / 64] >> (j % 64) & 1) != 0;
      ASSERT_EQ(bit, naive.descends(all[i], all[j])) << "node " << all[i] << " sees " << all[j];
    }
    const std::vector<NodeId> list(lists.begin() + begins[i], lists.begin() + begins[i + 1]);
    ASSERT_EQ(list, naive.path(all[i]));
  }
}

class RandomOperations : public ::testing::TestWithParam<uint32_t> {};

TEST_P(RandomOperations, AgreeWithTheNaiveTree) {
  std::mt19937 rng(GetParam());
  const auto below = [&](int32_t n) {
    return static_cast<int32_t>(rng() % static_cast<uint32_t>(n));
  };
  TokenTree tree(16);  // small, so that it also grows past its capacity
  NaiveTree naive;
  const auto restart = [&] {
    const int32_t position = below(50);
    naive.max_position = position + 1 + below(7);
    naive.nodes = {
        {tree.reset(7, position, naive.max_position), kNoNode, 7, 0.0f, position, false}};
  };
  restart();
  bool branched = false;
  for (int32_t round = 0; round < 200; ++round) {
    switch (below(8)) {
      case 0:
      case 1:
      case 2: {  // expand the best leaves, as the draft does
        std::vector<NodeId> leaves;
        const int32_t width = 1 + below(4);
        tree.best_leaves(width, leaves);
        ASSERT_EQ(leaves, naive.best_leaves(width));
        for (NodeId leaf : leaves) {
          tree.set_expansion(Role::kDraft, leaf,
                             below(2) ? Expansion::kInFlight : Expansion::kExpanded);
          naive.get(leaf).drafted = true;
          std::vector<Candidate> candidates;
          for (int32_t i = below(4); i > 0; --i) {
            // Coarse weights produce ties.
            candidates.push_back({below(5), -0.5f * static_cast<float>(below(4))});
          }
          branched |= candidates.size() > 1;
          const NodeId first = tree.add_children(leaf, candidates);
          for (size_t i = 0; first != kNoNode && i < candidates.size(); ++i) {
            naive.nodes.push_back({first + static_cast<NodeId>(i), leaf, candidates[i].token,
                                   candidates[i].logprob, naive.get(leaf).position + 1, false});
          }
          if (naive.get(leaf).position >= naive.max_position) {
            ASSERT_EQ(first, kNoNode);
          }
        }
        break;
      }
      case 3: {  // adds children to any node, whether the draft has run it or not
        const NodeId node = tree.node_at(below(tree.size()));
        if (naive.get(node).position >= naive.max_position) break;
        const Candidate candidate{below(5), -static_cast<float>(below(3))};
        const NodeId id = tree.add_children(node, {&candidate, 1});
        naive.nodes.push_back(
            {id, node, candidate.token, candidate.logprob, naive.get(node).position + 1, false});
        break;
      }
      case 4: {
        const NodeId node = tree.node_at(below(tree.size()));
        std::vector<NodeId> kept;
        if (below(2)) {
          tree.reroot(node, kept);
          naive.reroot(node);
        } else {
          std::vector<int32_t> rows;
          const NaiveTree before = naive;
          tree.prune_to_subtree(node, rows);
          naive.reroot(node);
          for (int32_t row : rows) kept.push_back(before.nodes[static_cast<size_t>(row)].id);
        }
        std::vector<NodeId> expected;
        for (const NaiveNode& n : naive.nodes) expected.push_back(n.id);
        ASSERT_EQ(kept, expected);
        break;
      }
      case 5: {
        const int32_t count = 1 + below(10);
        std::vector<NodeId> chosen;
        tree.best_subtree(count, chosen);
        ASSERT_EQ(chosen, naive.best_subtree(count));
        std::vector<NodeId> unrun = naive.best_subtree(tree.size());
        std::erase_if(unrun, [&](NodeId node) {
          return tree.expansion(Role::kTarget, node) != Expansion::kUnexpanded;
        });
        const auto heavier = [&](NodeId a, NodeId b) { return tree.weight(a) > tree.weight(b); };
        std::stable_sort(unrun.begin(), unrun.end(), heavier);
        unrun.resize(std::min(unrun.size(), static_cast<size_t>(count)));
        std::sort(unrun.begin(), unrun.end());
        tree.best_unrun(Role::kTarget, count, chosen);
        ASSERT_EQ(chosen, unrun);
        for (NodeId id : chosen) {
          const NodeId parent = tree.parent(id);
          ASSERT_TRUE(parent == kNoNode ||
                      std::find(chosen.begin(), chosen.end(), parent) != chosen.end());
        }
        break;
      }
      case 6: {  // follows a random path, which may leave the tree by one step
        const NodeId node = tree.node_at(below(tree.size()));
        std::vector<TokenId> tokens;
        tree.path_tokens(node, tokens);
        ASSERT_EQ(tokens.size(), naive.path(node).size() - 1);
        ASSERT_EQ(tree.walk(tokens), naive.walk(tokens));
        tokens.push_back(99);
        ASSERT_EQ(tree.walk(tokens), kNoNode);
        break;
      }
      default: {
        if (below(4) == 0) {
          restart();
        } else {
          const int32_t size = 1 + below(tree.size());
          tree.truncate(size);
          naive.nodes.resize(static_cast<size_t>(size));
        }
      }
    }
    expect_same(tree, naive);
    if (HasFatalFailure()) FAIL() << "round " << round;
    if (tree.size() > 120) restart();
  }
  EXPECT_TRUE(branched);
}

INSTANTIATE_TEST_SUITE_P(Seeds, RandomOperations, ::testing::Range(0u, 60u));

TEST(TokenTree, SubgraphStaysClosedWhereLogprobsAreUnusable) {
  TokenTree tree;
  const NodeId root = tree.reset(1, 0, 100);
  const std::vector<Candidate> candidates = {
      {2, 5.0f}, {3, std::numeric_limits<float>::quiet_NaN()}, {4, -1.0f}};
  const NodeId first = tree.add_children(root, candidates);
  EXPECT_EQ(tree.weight(first), 0.0f);
  EXPECT_EQ(tree.weight(first + 1), -std::numeric_limits<float>::infinity());
  std::vector<NodeId> chosen;
  tree.best_subtree(3, chosen);
  EXPECT_EQ(chosen, (std::vector<NodeId>{root, first, first + 2}));
}

TEST(TokenTree, ANodeKeepsItsOriginWhereverItsRowGoes) {
  TokenTree tree;
  const NodeId root = tree.reset(1, 0, 10);
  const std::vector<Candidate> guesses = {{2, -0.1f}, {3, -0.2f}, {4, -0.3f}};
  const NodeId first = tree.add_children(root, guesses);
  tree.set_origin(first + 1, GuessOrigin::kSource);
  tree.set_origin(first + 2, GuessOrigin::kSelf);
  const NodeId below = tree.add_children(first + 1, guesses);
  tree.set_origin(below + 2, GuessOrigin::kBoth);
  EXPECT_EQ(tree.origin(first), GuessOrigin::kModel);
  EXPECT_EQ(tree.origin(first + 2), GuessOrigin::kSelf);
  std::vector<NodeId> kept;
  tree.reroot(first + 1, kept);
  EXPECT_EQ(tree.origin(first + 1), GuessOrigin::kSource);
  EXPECT_EQ(tree.origin(below), GuessOrigin::kModel);
  EXPECT_EQ(tree.origin(below + 2), GuessOrigin::kBoth);
}

TEST(TokenTree, ANodeInFlightIsNoLeafUntilItReturns) {
  TokenTree tree;
  const NodeId root = tree.reset(1, 0, 100);
  std::vector<NodeId> leaves;
  tree.best_leaves(4, leaves);
  EXPECT_EQ(leaves, (std::vector<NodeId>{root}));
  tree.set_expansion(Role::kDraft, root, Expansion::kInFlight);
  tree.best_leaves(4, leaves);
  EXPECT_TRUE(leaves.empty());
  tree.set_expansion(Role::kDraft, root, Expansion::kUnexpanded);
  tree.best_leaves(4, leaves);
  EXPECT_EQ(leaves, (std::vector<NodeId>{root}));
  // The target's expansions do not affect best_leaves().
  tree.set_expansion(Role::kTarget, root, Expansion::kExpanded);
  tree.best_leaves(4, leaves);
  EXPECT_EQ(leaves, (std::vector<NodeId>{root}));
}

TEST(TokenTree, AppendLevelKeepsTheHeaviestInBreadthFirstOrder) {
  std::mt19937 rng(3);
  TokenTree tree;
  std::vector<NodeId> level = {tree.reset(1, 10, 30)};
  for (int32_t depth = 1; depth <= 20; ++depth) {
    const int32_t per_node = 3;
    const int32_t width = 4;
    std::vector<Candidate> candidates;
    std::vector<std::pair<float, size_t>> ranked;
    for (size_t i = 0; i < level.size() * 3; ++i) {
      const bool empty = rng() % 5 == 0;
      const float logprob = -0.25f * static_cast<float>(rng() % 8);
      candidates.push_back({empty ? -1 : static_cast<TokenId>(rng() % 100), logprob});
      if (!empty) ranked.push_back({-(tree.weight(level[i / 3]) + logprob), i});
    }
    std::sort(ranked.begin(), ranked.end());
    if (ranked.size() > 4) ranked.resize(4);
    std::vector<size_t> entries;
    for (const auto& [weight, entry] : ranked) entries.push_back(entry);
    std::sort(entries.begin(), entries.end());
    std::vector<NodeId> next;
    tree.append_level(width, per_node, level, candidates, next);
    ASSERT_EQ(next.size(), entries.size());
    for (size_t i = 0; i < next.size(); ++i) {
      EXPECT_EQ(tree.parent(next[i]), level[entries[i] / 3]);
      EXPECT_EQ(tree.token(next[i]), candidates[entries[i]].token);
      EXPECT_EQ(tree.depth(next[i]), depth);
    }
    level = next;
  }
  // The tree refuses children beyond max_position.
  std::vector<NodeId> beyond;
  const std::vector<Candidate> more(level.size(), Candidate{5, -1.0f});
  tree.append_level(4, 1, level, more, beyond);
  EXPECT_TRUE(beyond.empty());
}

// Replays figure 3 of the SwiftSpec paper: t3 and t5 extend t1's tree, so that the best four nodes
// are (1, 2, 3, 5); the walk (3, 6) reroots the tree at 6 and keeps its subtree.
TEST(TokenTree, SwiftSpecFigure3FirstRound) {
  TokenTree tree;
  const NodeId t1 = tree.reset(1, 0, 100);
  const std::vector<Candidate> below_1 = {{2, -0.5f}, {3, -1.0f}};
  const NodeId t2 = tree.add_children(t1, below_1);
  const NodeId t3 = t2 + 1;
  const Candidate four{4, -3.0f};
  const std::vector<Candidate> below_3 = {{5, -0.6f}, {6, -1.4f}};
  tree.add_children(t2, {&four, 1});
  const NodeId t5 = tree.add_children(t3, below_3);
  const NodeId t6 = t5 + 1;
  std::vector<NodeId> input;
  tree.best_subtree(4, input);
  EXPECT_EQ(input, (std::vector<NodeId>{t1, t2, t3, t5}));
  const std::vector<Candidate> below_6 = {{9, -0.3f}, {10, -1.5f}};
  const NodeId t9 = tree.add_children(t6, below_6);
  const Candidate eleven{11, -0.2f};
  const NodeId t11 = tree.add_children(t9, {&eleven, 1});
  const std::vector<TokenId> verified = {3, 6};
  EXPECT_EQ(tree.walk(verified), t6);
  std::vector<NodeId> kept;
  tree.reroot(t6, kept);
  EXPECT_EQ(kept, (std::vector<NodeId>{t6, t9, t9 + 1, t11}));
  EXPECT_FALSE(tree.contains(t1));
  EXPECT_FLOAT_EQ(tree.weight(t11), -0.5f);
}

}  // namespace
}  // namespace forerun
