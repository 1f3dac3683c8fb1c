#include "strategies/sparse_self.h"

#include <utility>

namespace forerun {

OptionSet SparseSelf::uses(const TreeShape&) {
  using enum SpeculationOption;
  return {kView, kViewBudget, kDraftDepth, kSharedNoise};
}

Status SparseSelf::check(SpeculationPlan& plan) {
  if (plan.view.kind == nullptr) plan.view.kind = &view_table().front();
  return check_view(plan, Role::kTarget);
}

std::unique_ptr<Strategy> SparseSelf::make(const SpeculationPlan& plan,
                                           const StrategyParts& parts) {
  return std::make_unique<SparseSelf>(plan.view, plan.draft_depth, parts.record_rounds);
}

SparseSelf::SparseSelf(KvViewSpec view, int32_t draft_depth, bool record_rounds)
    : view_(view),
      draft_depth_(draft_depth),
      record_rounds_(record_rounds),
      tree_(draft_depth + 1),
      verification_(AcceptRule::kMatch) {}

WorkItem SparseSelf::make_item() {
  WorkItem item;
  item.sequence = sequence_;
  item.role = Role::kTarget;
  item.tag = ++awaited_tag_;
  item.edits = std::exchange(edits_, {});
  return item;
}

void SparseSelf::start(const RequestView& request, StrategyOutput& out) {
  sequence_ = request.sequence;
  max_tokens_ = request.max_tokens;
  length_ = static_cast<int32_t>(request.tokens.size());
  if (length_ == 0 || length_ >= max_tokens_) return;
  tree_.skip_ids_below(request.first_node);
  if (request.kv_tokens[static_cast<size_t>(Role::kTarget)] > 0) {
    begin_round(request.tokens.back(), out);
    return;
  }
  WorkItem item = make_item();
  item.rows.reserve(request.tokens.size());
  for (const TokenId token : request.tokens) {
    const auto position = static_cast<int32_t>(item.rows.size());
    item.rows.push_back({.token = token, .position = position});
  }
  item.rows.back().want = Want::kSample;
  phase_ = Phase::kPrefill;
  out.work.push_back(std::move(item));
}

void SparseSelf::on_result(const WorkResult& result, StrategyOutput& out) {
  if (!result.status.ok() || phase_ == Phase::kIdle || result.tag != awaited_tag_) return;
  switch (phase_) {
    case Phase::kIdle:
      return;
    case Phase::kPrefill: {
      if (result.rows.empty()) return;
      const RowResult& row = result.rows.back();
      out.tokens.push_back({.token = row.token, .logprob = row.logprob, .top = row.top});
      ++stats_.emitted_tokens;
      ++length_;
      begin_round(row.token, out);
      return;
    }
    case Phase::kDrafting:
      on_drafted(result);
      draft_or_verify(out);
      return;
    case Phase::kVerifying:
      on_verified(result, out);
      return;
  }
}

void SparseSelf::begin_round(TokenId root, StrategyOutput& out) {
  if (length_ >= max_tokens_) {
    phase_ = Phase::kIdle;
    return;
  }
  // The token after a row must come before max_tokens.
  last_ = tree_.reset(root, length_ - 1, max_tokens_ - 2);
  drafts_left_ = length_ > view_.budget ? draft_depth_ : 0;
  draft_or_verify(out);
}

void SparseSelf::draft_or_verify(StrategyOutput& out) {
  if (drafts_left_ > 0 && tree_.position(last_) < tree_.max_position()) {
    submit_draft_item(out);
  } else {
    submit_verification(out);
  }
}

void SparseSelf::submit_draft_item(StrategyOutput& out) {
  WorkItem item = make_item();
  item.view = view_;
  item.rows.push_back({.token = tree_.token(last_),
                       .position = tree_.position(last_),
                       .node = last_,
                       .parent = tree_.parent(last_),
                       .want = Want::kTopK,
                       .count = 1});
  tree_.set_expansion(Role::kTarget, last_, Expansion::kInFlight);
  --drafts_left_;
  phase_ = Phase::kDrafting;
  ++stats_.draft_steps;
  out.work.push_back(std::move(item));
}

void SparseSelf::on_drafted(const WorkResult& result) {
  NodeId next = kNoNode;
  if (!result.rows.empty() && !result.rows[0].top.empty()) {
    next = tree_.add_children(last_, std::span(result.rows[0].top).first(1));
  }
  if (next == kNoNode) {
    drafts_left_ = 0;
  } else {
    last_ = next;
  }
}

void SparseSelf::submit_verification(StrategyOutput& out) {
  verification_.nodes().clear();
  for (int32_t row = 0; row < tree_.size(); ++row) {
    verification_.nodes().push_back(tree_.node_at(row));
  }
  // What the drafts wrote.
  if (tree_.expansion(Role::kTarget, tree_.root()) != Expansion::kUnexpanded) {
    edits_.push_back({.kind = Edit::Kind::kKeep, .nodes = {}});
  }
  WorkItem item = make_item();
  item.chooses_for = view_;
  verification_.add_rows(tree_, /*weights_are_chances=*/false, item);
  phase_ = Phase::kVerifying;
  ++stats_.target_steps;
  out.work.push_back(std::move(item));
}

void SparseSelf::on_verified(const WorkResult& result, StrategyOutput& out) {
  if (!verification_.follow(tree_, result, out)) return;
  const auto emitted = static_cast<int32_t>(verification_.path().size());
  length_ += emitted;
  stats_.emitted_tokens += emitted;
  stats_.drafted_tokens += verification_.guesses();
  stats_.accepted_tokens += emitted - 1;
  if (record_rounds_) out.rounds.push_back(verification_.record(tree_, kNoNode));
  verification_.add_edits(edits_);
  begin_round(verification_.sampled().back(), out);
}

}  // namespace forerun
