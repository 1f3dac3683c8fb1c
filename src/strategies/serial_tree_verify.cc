// SerialTree's verification, what it learns from its result, and the KV edits that follow.
#include <algorithm>
#include <utility>

#include "strategies/serial_tree.h"

namespace forerun {

void SerialTree::submit_verification(StrategyOutput& out) {
  WorkItem item = make_item(Role::kTarget);
  verification_.add_rows(tree_, growth_->weights_are_chances(), item);
  awaited_tag_ = item.tag;
  phase_ = Phase::kVerifying;
  ++stats_.target_steps;
  out.work.push_back(std::move(item));
}

void SerialTree::submit_plain_row(StrategyOutput& out) {
  WorkItem item = make_item(Role::kTarget);
  item.rows.push_back({.token = tokens_.back(), .position = length() - 1, .want = Want::kSample});
  awaited_tag_ = item.tag;
  phase_ = Phase::kResting;
  ++stats_.target_steps;
  out.work.push_back(std::move(item));
}

void SerialTree::on_rested(const WorkResult& result, StrategyOutput& out) {
  if (result.rows.empty()) return;
  const RowResult& drawn = result.rows.back();
  out.error = drawn.status;
  if (!out.error.ok()) return;
  out.tokens.push_back({.token = drawn.token, .logprob = drawn.logprob, .top = drawn.top});
  take_emitted(out, out.tokens.size() - 1);
  const bool rests = growth_->rest_on();
  if (rests && length() < max_tokens_) {
    submit_plain_row(out);
    return;
  }
  place_root(tokens_.back());
  begin_round(out);
}

void SerialTree::take_emitted(const StrategyOutput& out, size_t before) {
  const auto first = static_cast<size_t>(length());
  for (size_t i = before; i < out.tokens.size(); ++i) tokens_.push_back(out.tokens[i].token);
  stats_.emitted_tokens += static_cast<int64_t>(tokens_.size() - first);
}

void SerialTree::on_verified(const WorkResult& result, StrategyOutput& out) {
  const size_t before = out.tokens.size();
  if (!verification_.follow(tree_, result, out)) return;
  take_emitted(out, before);
  stats_.drafted_tokens += verification_.guesses();
  stats_.accepted_tokens += static_cast<int64_t>(verification_.path().size()) - 1;
  if (!out.error.ok()) return;
  const NodeId next = next_root();
  if (config_.record_rounds) out.rounds.push_back(verification_.record(tree_, next));
  growth_->on_verified(tree_, verification_.nodes().size(), verification_.path(),
                       verification_.sampled());
  verification_.add_edits(target_edits_);
  advance(next);
  begin_round(out);
}

// Returns the next root. A source's nodes have no KV and end a path. A sample that was refused or
// never tried may not be used again, so rule `rejection` starts over from a new root.
NodeId SerialTree::next_root() const {
  if (!config_.has_draft_model || config_.accept != AcceptRule::kMatch) return kNoNode;
  const NodeId last = verification_.path().back();
  if (tree_.row(last) >= model_size_) return kNoNode;
  const NodeId next = tree_.child(last, tokens_.back());
  return next == kNoNode || tree_.row(next) >= model_size_ ? kNoNode : next;
}

void SerialTree::advance(NodeId next) {
  const TokenId token = tokens_.back();
  if (!config_.has_draft_model) {
    place_root(token);
    return;
  }
  std::span<const NodeId> path = verification_.path();
  while (!path.empty() && tree_.row(path.back()) >= model_size_) path = path.first(path.size() - 1);
  drop_source_nodes();
  draft_kv_.move_root(tree_, path, next, token, length() - 1, nodes_);
  model_size_ = tree_.size();
}

}  // namespace forerun
