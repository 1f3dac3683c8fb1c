// The growth of Pipelined's tree: draft steps, sources, levels.
#include <algorithm>
#include <utility>

#include "strategies/pipelined.h"

namespace forerun {
namespace {

// The number of steps by which the draft runs ahead of the target, beyond one per item in flight.
constexpr size_t kDraftStepsAhead = 8;
// The number of nodes below which a model-free source guesses at a time.
constexpr int32_t kSourceLeaves = 8;

}  // namespace

void Pipelined::on_drafted(DraftStep& step, const WorkResult& result) {
  step.tag = 0;
  for (size_t i = 0; i < step.leaves.size(); ++i) {
    const NodeId leaf = step.leaves[i];
    if (!tree_.contains(leaf)) continue;
    tree_.set_expansion(Role::kDraft, leaf, Expansion::kExpanded);
    if (i >= result.rows.size()) continue;
    guesses_.add_children(tree_, leaf, result.rows[i].top, config_.children_per_leaf, judge_);
  }
}

bool Pipelined::tree_is_growing() const {
  for (const DraftStep& step : steps_) {
    if (step.tag == 0) continue;
    for (const NodeId leaf : step.leaves) {
      if (tree_.contains(leaf)) return true;
    }
  }
  return false;
}

void Pipelined::draft(StrategyOutput& out) {
  const auto idle = std::find_if(steps_.begin(), steps_.end(),
                                 [](const DraftStep& step) { return step.tag == 0; });
  if (idle == steps_.end() || tree_is_growing()) return;
  const bool as_sent = config_.by_levels || config_.width_from_costs;
  int32_t width = as_sent ? width_ : config_.draft_width;
  if (width_ < config_.width) width = std::min(width, width_);  // fewer beside other requests
  const auto most = static_cast<int32_t>(flights_.size() + kDraftStepsAhead) * width;
  if (draft_nodes_ + width > most) return;
  if (config_.by_levels) {
    idle->leaves.clear();
    for (const NodeId node : level_) {
      if (tree_.expansion(Role::kDraft, node) != Expansion::kUnexpanded) continue;
      if (tree_.position(node) < tree_.max_position()) idle->leaves.push_back(node);
    }
  } else {
    tree_.best_leaves(width, idle->leaves);
  }
  if (!idle->leaves.empty()) submit_draft_step(*idle, out);
}

void Pipelined::submit_draft_step(DraftStep& step, StrategyOutput& out) {
  WorkItem item;
  item.sequence = sequence_;
  item.role = Role::kDraft;
  item.tag = step.tag = next_tag_++;
  step.is_new = true;
  draft_kv_.take_edits(item);
  if (draft_prefilled_) ++stats_.draft_steps;
  draft_prefilled_ = true;
  // A root that has not run has only the verified text before it.
  if (step.leaves.front() == tree_.root()) {
    draft_kv_.add_missing_rows(tokens_, length() - 1, item);
  }
  item.rows.reserve(item.rows.size() + step.leaves.size());
  for (const NodeId leaf : step.leaves) {
    item.rows.push_back({.token = draft_kv_.token(tree_.token(leaf)),
                         .position = tree_.position(leaf),
                         .node = leaf,
                         .parent = tree_.parent(leaf),
                         .want = Want::kTopK,
                         .count = config_.children_per_leaf});
    tree_.set_expansion(Role::kDraft, leaf, Expansion::kInFlight);
  }
  draft_nodes_ += static_cast<int32_t>(step.leaves.size());
  out.work.push_back(std::move(item));
}

// Grows the tree without a draft model, until there are enough nodes to send or the source has no
// more proposals.
void Pipelined::grow_by_source() {
  int32_t unsent = 0;
  for (int32_t row = 0; row < tree_.size(); ++row) unsent += is_sent(tree_.node_at(row)) ? 0 : 1;
  while (unsent < width_) {
    const int32_t before = tree_.size();
    tree_.best_leaves(kSourceLeaves, nodes_);
    if (nodes_.empty()) return;
    for (const NodeId node : nodes_) {
      tree_.set_expansion(Role::kDraft, node, Expansion::kExpanded);
      guesses_.add_children(tree_, node, {}, config_.children_per_leaf, judge_);
    }
    unsent += tree_.size() - before;
  }
}

void Pipelined::take_level(int32_t depth) {
  level_.clear();
  for (int32_t row = 0; row < tree_.size(); ++row) {
    const NodeId node = tree_.node_at(row);
    if (tree_.depth(node) != depth || is_sent(node)) continue;
    if (is_sent(tree_.parent(node))) level_.push_back(node);
  }
  const auto count = std::min(level_.size(), static_cast<size_t>(width_));
  std::partial_sort(level_.begin(), level_.begin() + static_cast<std::ptrdiff_t>(count),
                    level_.end(), [this](NodeId a, NodeId b) {
                      const float wa = tree_.weight(a);
                      const float wb = tree_.weight(b);
                      return wa > wb || (wa == wb && a < b);
                    });
  level_.resize(count);
  std::sort(level_.begin(), level_.end());
}

// Chooses the next level, once the last one has been sent and the draft has run all of it.
void Pipelined::next_level() {
  if (!level_sent_ || level_.empty()) return;
  for (const NodeId node : level_) {
    const bool leads_on = tree_.position(node) < tree_.max_position();
    if (leads_on && tree_.expansion(Role::kDraft, node) != Expansion::kExpanded) return;
  }
  std::vector<NodeId> sent = level_;
  take_level(tree_.depth(level_.front()) + 1);
  if (level_.empty()) {
    level_ = std::move(sent);
  } else {
    level_sent_ = false;
  }
}

// Called when the root has moved down to a sent node. If no node of the level descends from it, the
// new level is the likeliest unsent children of sent nodes, at the deepest level that has some;
// they were not among the w likeliest before. If there are none, it is the root, which counts as
// sent.
void Pipelined::restore_level() {
  std::erase_if(level_, [this](NodeId node) { return !tree_.contains(node); });
  if (!level_.empty()) return;
  int32_t deepest = 0;
  for (int32_t row = 0; row < tree_.size(); ++row) {
    const NodeId node = tree_.node_at(row);
    if (is_sent(node)) deepest = std::max(deepest, tree_.depth(node));
  }
  for (int32_t depth = deepest; depth >= 0; --depth) {
    take_level(depth + 1);
    level_sent_ = false;
    if (!level_.empty()) return;
  }
  level_.assign(1, tree_.root());
  level_sent_ = true;
}

}  // namespace forerun
