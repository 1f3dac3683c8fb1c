#include "strategies/fixed_growth.h"

#include <algorithm>

namespace forerun {

void StaticGrowth::begin_round(const TokenTree&, const RoundStart&) {}

void StaticGrowth::next_leaves(TokenTree& tree, std::vector<LeafRequest>& out) {
  out.clear();
  // Levels are filled one after the other, so the first nodes that have not run belong to one
  // level.
  int32_t level = -1;
  for (int32_t row = 0; row < tree.size(); ++row) {
    const NodeId node = tree.node_at(row);
    if (tree.expansion(Role::kDraft, node) != Expansion::kUnexpanded) continue;
    const int32_t depth = tree.depth(node);
    if (depth >= static_cast<int32_t>(children_.size()) || (level >= 0 && depth != level)) break;
    if (tree.position(node) >= tree.max_position()) break;
    // A child with the token of a refused earlier sibling is never accepted.
    const NodeId parent = tree.parent(node);
    if (parent != kNoNode && tree.child(parent, tree.token(node)) != node) continue;
    level = depth;
    out.push_back({node, children_[static_cast<size_t>(depth)]});
  }
}

void StaticGrowth::choose(TokenTree& tree, std::vector<NodeId>& out) {
  out.clear();
  for (int32_t row = 0; row < tree.size(); ++row) out.push_back(tree.node_at(row));
}

void StaticGrowth::weigh(const TokenTree& tree, NodeId parent, std::vector<Guess>& guesses) {
  const auto depth = static_cast<size_t>(tree.depth(parent));
  const size_t count = depth < children_.size() ? static_cast<size_t>(children_[depth]) : 0;
  if (guesses.size() > count) guesses.resize(count);
}

int32_t children_wanted(const TokenTree& tree, NodeId leaf, int32_t children_per_leaf,
                        int32_t draft_width, int32_t verify_tokens) {
  if (children_per_leaf > 0) return children_per_leaf;
  const int32_t count = std::max(draft_width, 8);
  return leaf == tree.root() ? std::max(count, verify_tokens - 1) : count;
}

void BestGrowth::begin_round(const TokenTree&, const RoundStart&) { steps_ = 0; }

void BestGrowth::next_leaves(TokenTree& tree, std::vector<LeafRequest>& out) {
  out.clear();
  if (!params_.has_draft_model || steps_ >= params_.draft_depth) return;
  if (params_.tops_up && tree.size() >= params_.verify_tokens) return;
  ++steps_;
  tree.best_leaves(params_.draft_width, leaves_);
  for (NodeId leaf : leaves_) {
    out.push_back({leaf, children_wanted(tree, leaf, params_.children_per_leaf, params_.draft_width,
                                         params_.verify_tokens)});
  }
}

void BestGrowth::choose(TokenTree& tree, std::vector<NodeId>& out) {
  tree.best_subtree(params_.verify_tokens, out);
}

}  // namespace forerun
