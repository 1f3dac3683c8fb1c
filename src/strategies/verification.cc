#include "strategies/verification.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace forerun {

void Verification::add_rows(const TokenTree& tree, bool weights_are_chances, WorkItem& item) {
  root_is_prefix_ = nodes_.size() == 1;
  if (root_is_prefix_) {
    item.rows.push_back({.token = tree.token(nodes_[0]),
                         .position = tree.position(nodes_[0]),
                         .want = Want::kSample});
    return;
  }
  item.verify_by_rejection = by_rejection();
  item.rows.reserve(item.rows.size() + nodes_.size());
  for (NodeId node : nodes_) {
    item.rows.push_back({.token = tree.token(node),
                         .position = tree.position(node),
                         .node = node,
                         .parent = tree.parent(node),
                         .want = by_rejection() ? Want::kNothing : Want::kSample});
    if (!weights_are_chances || by_rejection() || node == nodes_[0]) continue;
    item.rows.back().chance = std::exp(tree.weight(node));
  }
}

// Ids increase with rows.
size_t Verification::place_of(NodeId node) const {
  const auto place = std::lower_bound(nodes_.begin(), nodes_.end(), node);
  if (place == nodes_.end() || *place != node) return nodes_.size();
  return static_cast<size_t>(place - nodes_.begin());
}

// Rows of the result are in the order of nodes_, some of which may be missing.
bool Verification::keep_those_run(const WorkResult& result) {
  if (result.rows.size() == nodes_.size()) return true;
  if (result.rows.empty() || result.rows.front().node != nodes_.front()) return false;
  nodes_.clear();
  for (const RowResult& row : result.rows) nodes_.push_back(row.node);
  return true;
}

bool Verification::follow(const TokenTree& tree, const WorkResult& result, StrategyOutput& out) {
  if (!by_rejection() && !keep_those_run(result)) return false;
  path_.clear();
  sampled_.clear();
  by_rejection() ? follow_rejection(tree, result, out) : follow_samples(tree, result, out);
  return true;
}

void Verification::follow_samples(const TokenTree& tree, const WorkResult& result,
                                  StrategyOutput& out) {
  NodeId node = nodes_[0];
  while (node != kNoNode) {
    const RowResult& drawn = result.rows[place_of(node)];
    if (!drawn.status.ok()) {
      path_.push_back(node);
      out.error = drawn.status;
      return;
    }
    NodeId next = tree.child(node, drawn.token);
    if (next != kNoNode && place_of(next) == nodes_.size()) next = kNoNode;
    path_.push_back(node);
    sampled_.push_back(drawn.token);
    out.tokens.push_back({.token = drawn.token,
                          .logprob = drawn.logprob,
                          .top = drawn.top,
                          .drafted = next != kNoNode});
    node = next;
  }
}

void Verification::follow_rejection(const TokenTree& tree, const WorkResult& result,
                                    StrategyOutput& out) {
  path_.push_back(nodes_[0]);
  const auto emit = [&](size_t step, TokenId token, bool drafted) {
    sampled_.push_back(token);
    out.tokens.push_back({.token = token, .top = {}, .drafted = drafted});
    if (step >= result.walked.size()) return;
    out.tokens.back().logprob = result.walked[step].logprob;
    out.tokens.back().top = result.walked[step].top;
  };
  for (NodeId node : result.accepted) {
    emit(path_.size() - 1, tree.token(node), /*drafted=*/true);
    path_.push_back(node);
  }
  if (!result.walk_status.ok()) {
    out.error = result.walk_status;
    return;
  }
  emit(path_.size() - 1, result.bonus, /*drafted=*/false);
}

void Verification::add_edits(std::vector<Edit>& edits) const {
  if (root_is_prefix_) return;
  edits.push_back({.kind = Edit::Kind::kCommit, .nodes = path_});
  edits.push_back({.kind = Edit::Kind::kKeep, .nodes = {}});
}

RoundRecord Verification::record(const TokenTree& tree, NodeId next) const {
  RoundRecord record;
  for (NodeId node : nodes_) {
    const NodeId parent = tree.parent(node);
    RoundRecord::Node entry;
    entry.token = tree.token(node);
    entry.parent = parent == kNoNode ? -1 : static_cast<int32_t>(place_of(parent));
    entry.logprob = tree.logprob(node);
    entry.origin = tree.origin(node);
    entry.accepted = std::find(path_.begin(), path_.end(), node) != path_.end();
    record.nodes.push_back(entry);
  }
  record.bonus = sampled_.back();
  record.reroot = next != kNoNode ? Reroot::kHit : tree.size() > 1 ? Reroot::kMiss : Reroot::kNone;
  return record;
}

}  // namespace forerun
