// SerialTree's second half: verification, what is learnt from it, and the KV edits that follow.
#include <algorithm>
#include <utility>

#include "strategies/serial_tree.h"

namespace forerun {

void SerialTree::submit_verification(StrategyOutput& out) {
  growth_->choose(tree_, verifying_);
  WorkItem item = make_item(Role::kTarget);
  const NodeId root = tree_.root();
  if (verifying_.size() == 1) {
    item.rows.push_back(
        {.token = tree_.token(root), .position = tree_.position(root), .want = Want::kSample});
  } else {
    const bool rejection = config_.accept == AcceptRule::kRejection;
    item.verify_by_rejection = rejection;
    item.rows.reserve(verifying_.size());
    for (NodeId node : verifying_) {
      item.rows.push_back({.token = tree_.token(node),
                           .position = tree_.position(node),
                           .node = node,
                           .parent = tree_.parent(node),
                           .want = rejection ? Want::kNothing : Want::kSample});
    }
  }
  awaited_tag_ = item.tag;
  phase_ = Phase::kVerifying;
  ++stats_.target_steps;
  stats_.drafted_tokens += static_cast<int64_t>(verifying_.size()) - 1;
  out.work.push_back(std::move(item));
}

bool SerialTree::is_verified(NodeId node) const {
  return std::binary_search(verifying_.begin(), verifying_.end(), node);
}

void SerialTree::emit(TokenId token, bool drafted, const RowResult* row, StrategyOutput& out) {
  EmittedToken emitted;
  emitted.token = token;
  emitted.drafted = drafted;
  if (row != nullptr) {
    emitted.logprob = row->logprob;
    emitted.top = row->top;
  }
  out.tokens.push_back(std::move(emitted));
  tokens_.push_back(token);
  if (source_) source_->observe({&token, 1});
  ++stats_.emitted_tokens;
}

void SerialTree::follow_samples(const WorkResult& result, StrategyOutput& out) {
  NodeId node = tree_.root();
  while (node != kNoNode) {
    const auto row = static_cast<size_t>(
        std::lower_bound(verifying_.begin(), verifying_.end(), node) - verifying_.begin());
    const RowResult& drawn = result.rows[row];
    NodeId next = tree_.child(node, drawn.token);
    if (next != kNoNode && !is_verified(next)) next = kNoNode;
    path_.push_back(node);
    sampled_.push_back(drawn.token);
    emit(drawn.token, next != kNoNode, &drawn, out);
    node = next;
  }
}

void SerialTree::follow_rejection(const WorkResult& result, StrategyOutput& out) {
  path_.push_back(tree_.root());
  for (NodeId node : result.accepted) {
    sampled_.push_back(tree_.token(node));
    path_.push_back(node);
    emit(tree_.token(node), true, nullptr, out);
  }
  sampled_.push_back(result.bonus);
  emit(result.bonus, false, nullptr, out);
}

void SerialTree::record_round(StrategyOutput& out) const {
  RoundRecord record;
  for (NodeId node : verifying_) {
    const NodeId parent = tree_.parent(node);
    const auto place = std::lower_bound(verifying_.begin(), verifying_.end(), parent);
    RoundRecord::Node entry;
    entry.token = tree_.token(node);
    entry.parent = parent == kNoNode ? -1 : static_cast<int32_t>(place - verifying_.begin());
    entry.logprob = tree_.logprob(node);
    entry.accepted = std::find(path_.begin(), path_.end(), node) != path_.end();
    record.nodes.push_back(entry);
  }
  record.bonus = sampled_.back();
  out.rounds.push_back(std::move(record));
}

void SerialTree::on_verified(const WorkResult& result, StrategyOutput& out) {
  path_.clear();
  sampled_.clear();
  const bool by_rejection = config_.accept == AcceptRule::kRejection && verifying_.size() > 1;
  if (by_rejection) {
    follow_rejection(result, out);
  } else {
    if (result.rows.size() != verifying_.size()) return;
    follow_samples(result, out);
  }
  stats_.accepted_tokens += static_cast<int64_t>(path_.size()) - 1;
  if (config_.record_rounds) record_round(out);
  growth_->on_verified(tree_, path_, sampled_);
  if (verifying_.size() > 1) {
    auto& edits = edits_[static_cast<size_t>(Role::kTarget)];
    add_edit(edits, Edit::Kind::kCommit, path_);
    add_edit(edits, Edit::Kind::kKeep, {});
  }
  advance();
  begin_round(out);
}

void SerialTree::advance() {
  const TokenId token = tokens_.back();
  std::vector<NodeId> committed;
  tree_.expanded_nodes(Role::kDraft, nodes_);
  const size_t had_kv = config_.has_draft_model ? nodes_.size() : 0;
  if (had_kv > 0) {
    // KV is closed under parents: the part of the path that has it comes first.
    for (NodeId node : path_) {
      if (tree_.expansion(Role::kDraft, node) == Expansion::kExpanded) committed.push_back(node);
    }
    draft_prefix_ += static_cast<int32_t>(committed.size());
  }

  // A draw that was refused or never tried says nothing of fresh draws: rule `rejection` starts
  // over from a new root.
  NodeId next = kNoNode;
  if (config_.has_draft_model && config_.accept == AcceptRule::kMatch) {
    next = tree_.child(path_.back(), token);
    if (next != kNoNode && tree_.row(next) >= model_size_) next = kNoNode;
  }
  std::vector<NodeId> kept;
  if (next == kNoNode) {
    place_root(token);
  } else {
    drop_source_nodes();
    tree_.reroot(next, nodes_);
    model_size_ = tree_.size();
    tree_.expanded_nodes(Role::kDraft, kept);
  }
  if (had_kv == 0) return;
  auto& edits = edits_[static_cast<size_t>(Role::kDraft)];
  const bool drops = had_kv > committed.size() + kept.size();
  if (!committed.empty()) add_edit(edits, Edit::Kind::kCommit, std::move(committed));
  if (drops) add_edit(edits, Edit::Kind::kKeep, std::move(kept));
}

}  // namespace forerun
