#include "strategies/sparse_self.h"

#include <utility>

namespace forerun {

// Returns the options in use. Only a source's guesses have a width, since the target's own draft is
// a chain.
OptionSet SparseSelf::uses(const TreeShape&, bool has_source) {
  using enum SpeculationOption;
  constexpr OptionSet kAlways = {kSource, kView, kViewBudget, kDraftDepth, kSharedNoise};
  return has_source ? kAlways | OptionSet{kDraftWidth} : kAlways;
}

Status SparseSelf::check(SpeculationPlan& plan) {
  if (plan.view.kind == nullptr) plan.view.kind = &window_view();
  return check_view(plan, Role::kTarget);
}

namespace {

// Returns the view of its own KV for a draft model that guesses for the target: sinks and a window
// of the target's budget. The draft model sees all of its KV if it has sliding windows of its own,
// or if streaming_llm does not accept the budget.
KvViewSpec view_of_draft_model(const SpeculationPlan& plan) {
  const KvViewEntry& window = window_view();
  const bool has_window = plan.models.has_window[static_cast<size_t>(Role::kDraft)];
  if (has_window || !window.check(plan.view.budget).ok()) return {};
  return {.kind = &window, .budget = plan.view.budget};
}

}  // namespace

std::unique_ptr<Strategy> SparseSelf::make(const SpeculationPlan& plan,
                                           const StrategyParts& parts) {
  Config config{
      .view = plan.view, .draft_depth = plan.draft_depth, .record_rounds = parts.record_rounds};
  if (plan.source.empty()) return std::make_unique<SparseSelf>(config);
  config.guesses = {.max_guesses = plan.draft_width - 1,
                    .has_draft_model = plan.source.model,
                    .target_vocab = plan.models.target_vocab,
                    .draft_vocab = plan.models.draft_vocab,
                    .view = view_of_draft_model(plan)};
  return std::make_unique<SparseSelf>(config, plan.source.make(), parts.shared);
}

SparseSelf::SparseSelf(const Config& config, std::unique_ptr<DraftSource> source,
                       std::shared_ptr<SharedAcceptance> shared)
    : config_(config),
      tree_(config.draft_depth + config.guesses.max_guesses + 2),
      may_align_(config.guesses.max_guesses == 0),
      guesses_(config.guesses, std::move(source), std::move(shared)),
      verification_(AcceptRule::kMatch) {}

WorkItem SparseSelf::make_item() {
  WorkItem item;
  item.role = Role::kTarget;
  item.edits = std::exchange(edits_, {});
  return item;
}

void SparseSelf::submit(WorkItem item, Phase phase, StrategyOutput& out) {
  item.sequence = sequence_;
  item.tag = ++awaited_tag_;
  phase_ = phase;
  out.work.push_back(std::move(item));
}

void SparseSelf::start(const RequestView& request, StrategyOutput& out) {
  sequence_ = request.sequence;
  max_tokens_ = request.max_tokens;
  length_ = static_cast<int32_t>(request.tokens.size());
  if (length_ == 0 || length_ >= max_tokens_) return;
  guesses_.start(request);
  tree_.skip_ids_below(request.first_node);
  if (request.kv_tokens[static_cast<size_t>(Role::kTarget)] > 0) {
    tree_.reset(request.tokens.back(), length_ - 1, max_tokens_ - 2);
    begin_round(/*step=*/0, out);
    return;
  }
  WorkItem item = make_item();
  item.rows.reserve(request.tokens.size());
  for (const TokenId token : request.tokens) {
    const auto position = static_cast<int32_t>(item.rows.size());
    item.rows.push_back({.token = token, .position = position});
  }
  item.rows.back().want = Want::kSample;
  submit(std::move(item), Phase::kPrefill, out);
}

void SparseSelf::prepare() {
  // The first token does not wait for the source to read the prompt.
  if (phase_ != Phase::kIdle && phase_ != Phase::kPrefill) guesses_.prepare();
}

void SparseSelf::on_result(const WorkResult& result, StrategyOutput& out) {
  if (!result.status.ok() || phase_ == Phase::kIdle || result.tag != awaited_tag_) return;
  switch (phase_) {
    case Phase::kIdle:
      return;
    case Phase::kPrefill:
      on_prefilled(result, out);
      return;
    case Phase::kGuessing:
      guesses_.on_guessed(tree_, result);
      guess_or_draft(out);
      return;
    case Phase::kDrafting:
      on_drafted(result);
      draft_or_verify(out);
      return;
    case Phase::kVerifying:
      on_verified(result, out);
      return;
  }
}

void SparseSelf::on_prefilled(const WorkResult& result, StrategyOutput& out) {
  if (result.rows.empty()) return;
  const RowResult& row = result.rows.back();
  out.error = row.status;
  if (!out.error.ok()) return;
  out.tokens.push_back({.token = row.token, .logprob = row.logprob, .top = row.top});
  guesses_.add_verified(out.tokens);
  ++stats_.emitted_tokens;
  ++length_;
  tree_.reset(row.token, length_ - 1, max_tokens_ - 2);
  begin_round(result.step, out);
}

int32_t SparseSelf::align_round(int64_t step) {
  if (length_ <= config_.view.budget) return 0;
  const int32_t depth = config_.draft_depth;
  if (!may_align_ || step == 0) return depth;
  may_align_ = false;
  return depth - static_cast<int32_t>((step + 1) % (depth + 1));
}

void SparseSelf::begin_round(int64_t step, StrategyOutput& out) {
  if (length_ >= max_tokens_) {
    phase_ = Phase::kIdle;
    return;
  }
  last_ = tree_.root();
  depth_ = align_round(step);
  draft_or_verify(out);
}

void SparseSelf::draft_or_verify(StrategyOutput& out) {
  // The token after a row must come before max_tokens.
  if (tree_.depth(last_) >= depth_ || tree_.position(last_) >= tree_.max_position()) {
    submit_verification(out);
    return;
  }
  // The first token is emitted in this turn and does not wait for the source to read the prompt.
  guesses_.begin(tree_, last_, /*reads=*/phase_ != Phase::kPrefill);
  guess_or_draft(out);
}

void SparseSelf::guess_or_draft(StrategyOutput& out) {
  WorkItem item;
  if (guesses_.grow(tree_, item)) {
    ++stats_.draft_steps;
    submit(std::move(item), Phase::kGuessing, out);
  } else {
    submit_draft_item(out);
  }
}

void SparseSelf::submit_draft_item(StrategyOutput& out) {
  WorkItem item = make_item();
  item.view = config_.view;
  const auto add_row = [&](NodeId node, float chance) {
    item.rows.push_back({.token = tree_.token(node),
                         .position = tree_.position(node),
                         .node = node,
                         .parent = tree_.parent(node),
                         .want = Want::kTopK,
                         .count = 1,
                         .chance = chance});
  };
  add_row(last_, 1.0f);
  for (size_t row = 0; row < guesses_.rows().size(); ++row) {
    add_row(guesses_.rows()[row], guesses_.chance(row));
  }
  ++stats_.draft_steps;
  submit(std::move(item), Phase::kDrafting, out);
}

void SparseSelf::on_drafted(const WorkResult& result) {
  for (const RowResult& row : result.rows) {
    tree_.set_expansion(Role::kTarget, row.node, Expansion::kExpanded);
  }
  // Follows the view's tokens down the guesses. Results are in the order of rows; the last ones may
  // be missing.
  size_t row = 0;
  NodeId end = last_;
  Candidate drafted{.token = -1};
  while (row < result.rows.size() && !result.rows[row].top.empty()) {
    drafted = result.rows[row++].top[0];
    const NodeId next = tree_.child(end, drafted.token);
    if (next == kNoNode || tree_.expansion(Role::kTarget, next) == Expansion::kUnexpanded) break;
    end = next;
    drafted.token = -1;
  }
  guesses_.settle(tree_, end, drafted.token);
  if (row < result.rows.size()) {
    std::vector<NodeId> kept;
    tree_.nodes_with_kv(Role::kTarget, kept);
    edits_.push_back({.kind = Edit::Kind::kKeep, .nodes = std::move(kept)});
  }
  // settle() has kept a guess that equals the view's own token.
  NodeId next = drafted.token < 0 ? kNoNode : tree_.child(end, drafted.token);
  if (next == kNoNode && drafted.token >= 0) {
    next = tree_.add_children(end, std::span(&drafted, 1));
    if (next != kNoNode) tree_.set_origin(next, GuessOrigin::kSelf);
  }
  if (next == kNoNode) depth_ = 0;
  last_ = next == kNoNode ? end : next;
}

void SparseSelf::submit_verification(StrategyOutput& out) {
  verification_.nodes().clear();
  for (int32_t row = 0; row <= tree_.row(last_); ++row) {
    verification_.nodes().push_back(tree_.node_at(row));
  }
  // Drops the KV of the draft rows.
  if (tree_.expansion(Role::kTarget, tree_.root()) != Expansion::kUnexpanded) {
    edits_.assign(1, {.kind = Edit::Kind::kKeep, .nodes = {}});
  }
  WorkItem item = make_item();
  item.chooses_for = config_.view;
  verification_.add_rows(tree_, /*weights_are_chances=*/false, item);
  ++stats_.target_steps;
  submit(std::move(item), Phase::kVerifying, out);
}

void SparseSelf::on_verified(const WorkResult& result, StrategyOutput& out) {
  const size_t before = out.tokens.size();
  if (!verification_.follow(tree_, result, out)) return;
  guesses_.add_verified(std::span(out.tokens).subspan(before));
  const auto emitted = static_cast<int32_t>(out.tokens.size() - before);
  length_ += emitted;
  stats_.emitted_tokens += emitted;
  stats_.drafted_tokens += verification_.guesses();
  stats_.accepted_tokens += static_cast<int64_t>(verification_.path().size()) - 1;
  if (!out.error.ok()) return;
  if (config_.record_rounds) out.rounds.push_back(verification_.record(tree_, kNoNode));
  verification_.add_edits(edits_);
  guesses_.move_root(tree_, verification_.path(), verification_.sampled().back(), length_ - 1);
  begin_round(result.step, out);
}

}  // namespace forerun
