#include "strategies/serial_tree.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/status_macros.h"
#include "strategies/make_growth.h"

namespace forerun {
namespace {

// A guess below this chance, its whole path included, is not worth a row.
constexpr float kHopelessChance = 0.0025f;
// The number of tokens in a row that the source must have guessed right to end a request's rest.
constexpr int32_t kRightToWake = 2;
// Number of a source's guesses that are added at each node below the nodes that the model has run.
constexpr int32_t kSourceWidth = 3;

}  // namespace

OptionSet SerialTree::uses(const TreeShape& shape, bool) {
  using enum SpeculationOption;
  constexpr OptionSet kAlways = {kSource, kShape, kAccept, kSharedNoise, kView, kViewBudget};
  switch (shape.kind) {
    case TreeShape::Kind::kAdaptive:
      return kAlways | OptionSet{kChildrenPerLeaf};
    case TreeShape::Kind::kBest:
      return kAlways | OptionSet{kVerifyTokens, kDraftWidth, kDraftDepth, kChildrenPerLeaf};
    case TreeShape::Kind::kChain:
      return kAlways | OptionSet{kDraftDepth};
    case TreeShape::Kind::kStatic:
    case TreeShape::Kind::kLevels:
      break;
  }
  return kAlways;
}

Status SerialTree::check(SpeculationPlan& plan) {
  FORERUN_RETURN_IF_ERROR(refuse_levels(plan));
  // The other shapes have a fixed size, which a source's guesses would fill in place of the
  // model's.
  const bool adaptive = plan.shape.kind == TreeShape::Kind::kAdaptive;
  set_default_source(plan, adaptive ? "model+suffix" : "model");
  FORERUN_RETURN_IF_ERROR(check_view(plan, Role::kDraft));
  if (plan.view.kind != nullptr && !plan.source.model) {
    return Status(StatusCode::kInvalidArgument,
                  "draft source: found '" + plan.source.name() + "' with view '" +
                      plan.view.kind->name +
                      "', which chooses from the draft model's KV; accepted with this view: model, "
                      "or model joined to others by '+'");
  }
  if (plan.accept.rule == AcceptRule::kMatch) return Status();
  if (plan.accept.rule != AcceptRule::kRejection) {
    return Status(StatusCode::kInvalidArgument,
                  "accept rule: found '" + plan.accept.name() +
                      "'; accepted with strategy serial_tree: match, rejection");
  }
  if (!plan.shape.is_static()) {
    return Status(StatusCode::kInvalidArgument,
                  "shape: found '" + plan.shape.name +
                      "', which picks guesses by weight, with accept rule 'rejection', which is "
                      "exact only for drawn guesses; accepted with this rule: chain, or children "
                      "per level such as 1,1,3,1,1");
  }
  if (!plan.source.model || !plan.source.others.empty()) {
    return Status(StatusCode::kInvalidArgument,
                  "draft source: found '" + plan.source.name() +
                      "' with accept rule 'rejection', which needs guesses drawn from a draft "
                      "model; accepted with this rule: model");
  }
  return Status();
}

std::unique_ptr<Strategy> SerialTree::make(const SpeculationPlan& plan,
                                           const StrategyParts& parts) {
  const SerialTreeConfig config{.has_draft_model = plan.source.model,
                                .draft_is_head = plan.models.draft_is_head,
                                .accept = plan.accept.rule,
                                .target_vocab = plan.models.target_vocab,
                                .draft_vocab = plan.models.draft_vocab,
                                .record_rounds = parts.record_rounds,
                                .view = plan.view};
  return std::make_unique<SerialTree>(config, plan.source.make(),
                                      make_growth(plan, /*runs_beside=*/false, parts.shared));
}

SerialTree::SerialTree(const SerialTreeConfig& config, std::unique_ptr<DraftSource> source,
                       std::unique_ptr<TreeGrowth> growth)
    : config_(config),
      guesses_(std::move(source), config.accept, config.target_vocab),
      growth_(std::move(growth)),
      draft_kv_(config.draft_vocab, config.draft_is_head),
      verification_(config.accept) {}

WorkItem SerialTree::make_item(Role role) {
  WorkItem item;
  item.sequence = sequence_;
  item.role = role;
  item.tag = next_tag_++;
  if (role == Role::kTarget) {
    item.edits = std::exchange(target_edits_, {});
  } else {
    item.view = config_.view;
    draft_kv_.take_edits(item);
  }
  return item;
}

void SerialTree::start(const RequestView& request, StrategyOutput& out) {
  sequence_ = request.sequence;
  max_tokens_ = request.max_tokens;
  tokens_.assign(request.tokens.begin(), request.tokens.end());
  guesses_.start(request.prompt_tokens);
  if (tokens_.empty() || length() >= max_tokens_) return;
  tokens_.reserve(static_cast<size_t>(max_tokens_));
  tree_.skip_ids_below(request.first_node);
  draft_kv_.start(request.kv_tokens[static_cast<size_t>(Role::kDraft)]);
  // Skips the last token, which becomes the root.
  if (request.kv_tokens[static_cast<size_t>(Role::kTarget)] > 0) {
    place_root(tokens_.back());
    begin_round(out);
    return;
  }

  WorkItem target = make_item(Role::kTarget);
  target.rows.reserve(tokens_.size());
  for (int32_t position = 0; position < length(); ++position) {
    target.rows.push_back({.token = tokens_[static_cast<size_t>(position)], .position = position});
  }
  target.rows.back().want = Want::kSample;
  awaited_tag_ = target.tag;
  phase_ = Phase::kPrefill;
  out.work.push_back(std::move(target));
}

void SerialTree::on_result(const WorkResult& result, StrategyOutput& out) {
  if (!result.status.ok() || phase_ == Phase::kIdle || result.tag != awaited_tag_) return;
  switch (phase_) {
    case Phase::kIdle:
      return;
    case Phase::kPrefill:
      if (result.rows.empty()) return;
      out.error = result.rows.back().status;
      if (!out.error.ok()) return;
      out.tokens.push_back({.token = result.rows.back().token,
                            .logprob = result.rows.back().logprob,
                            .top = result.rows.back().top});
      take_emitted(out, out.tokens.size() - 1);
      place_root(tokens_.back());
      begin_round(out);
      return;
    case Phase::kDrafting:
      on_drafted(result, out);
      return;
    case Phase::kVerifying:
      on_verified(result, out);
      return;
    case Phase::kResting:
      on_rested(result, out);
      return;
  }
}

void SerialTree::place_root(TokenId token) {
  // The token after a row must come before max_tokens.
  tree_.reset(token, length() - 1, max_tokens_ - 2);
  model_size_ = 1;
}

void SerialTree::begin_round(StrategyOutput& out) {
  if (length() >= max_tokens_) {
    phase_ = Phase::kIdle;
    return;
  }
  const bool expanded = tree_.expansion(Role::kDraft, tree_.root()) == Expansion::kExpanded;
  growth_->begin_round(tree_, {.draft_rows_behind = length() - 1 - draft_kv_.prefix(),
                               .root_expanded = expanded,
                               .tokens_left = max_tokens_ - length()});
  if (growth_->rests() && tree_.size() == 1 && !expanded && !config_.record_rounds) {
    submit_plain_row(out);
    return;
  }
  if (growth_->rests()) {
    verification_.nodes().assign(1, tree_.root());
    submit_verification(out);
    return;
  }
  continue_drafting(out);
}

void SerialTree::prepare() {
  switch (phase_) {
    case Phase::kIdle:
    case Phase::kPrefill:  // the first token does not wait for the source to read the prompt
      return;
    case Phase::kDrafting:
    case Phase::kVerifying:
      guesses_.observe(tokens_);
      return;
    case Phase::kResting:
      // While the Step runs, so that looking for repetition delays nobody.
      if (guesses_.follow(tokens_) >= kRightToWake) growth_->wake();
      return;
  }
}

void SerialTree::continue_drafting(StrategyOutput& out) {
  // The first token, which is emitted with the draft's first item, does not wait for the source to
  // read the prompt.
  const bool first = phase_ == Phase::kPrefill && config_.has_draft_model;
  if (!first) guesses_.observe(tokens_);
  while (true) {
    if (!first) add_source_nodes();
    growth_->next_leaves(tree_, requests_);
    if (requests_.empty()) break;
    if (config_.has_draft_model) {
      submit_draft_item(out);
      return;
    }
    for (const LeafRequest& request : requests_) {
      tree_.set_expansion(Role::kDraft, request.node, Expansion::kExpanded);
      add_guesses(request.node, {}, request.count);
    }
    model_size_ = tree_.size();
  }
  growth_->choose(tree_, verification_.nodes());
  submit_verification(out);
}

void SerialTree::submit_draft_item(StrategyOutput& out) {
  WorkItem item = make_item(Role::kDraft);
  const Want want = config_.accept == AcceptRule::kRejection ? Want::kDraw : Want::kTopK;
  if (requests_.front().node == tree_.root()) {
    draft_kv_.add_missing_rows(tokens_, length() - 1, item);
  }
  missing_rows_ = static_cast<int32_t>(item.rows.size());
  item.gain = growth_->gain();
  item.needs_features = config_.draft_is_head;
  item.rows.reserve(item.rows.size() + requests_.size());
  for (const LeafRequest& request : requests_) {
    item.rows.push_back({.token = draft_kv_.token(tree_.token(request.node)),
                         .position = tree_.position(request.node),
                         .node = request.node,
                         .parent = tree_.parent(request.node),
                         .want = want,
                         .count = request.count});
    tree_.set_expansion(Role::kDraft, request.node, Expansion::kInFlight);
  }
  awaited_tag_ = item.tag;
  phase_ = Phase::kDrafting;
  ++stats_.draft_steps;
  out.work.push_back(std::move(item));
}

void SerialTree::on_left_out(StrategyOutput& out) {
  --stats_.draft_steps;
  draft_kv_.take_back(missing_rows_);
  for (const LeafRequest& request : requests_) {
    tree_.set_expansion(Role::kDraft, request.node, Expansion::kUnexpanded);
  }
  growth_->on_left_out();
  growth_->choose(tree_, verification_.nodes());
  submit_verification(out);
}

void SerialTree::on_drafted(const WorkResult& result, StrategyOutput& out) {
  if (result.left_out) return on_left_out(out);
  drop_source_nodes();
  guesses_.observe(tokens_);
  for (size_t i = 0; i < requests_.size(); ++i) {
    tree_.set_expansion(Role::kDraft, requests_[i].node, Expansion::kExpanded);
    if (i < result.rows.size()) {
      add_guesses(requests_[i].node, result.rows[i].top, requests_[i].count);
    }
  }
  model_size_ = tree_.size();
  continue_drafting(out);
}

void SerialTree::add_source_nodes() {
  int32_t budget = guesses_.has_source() ? growth_->source_nodes() : 0;
  if (budget <= 0) return;
  const auto lighter = [&](int32_t a, int32_t b) {
    const float wa = tree_.weight(tree_.node_at(a));
    const float wb = tree_.weight(tree_.node_at(b));
    return wa < wb || (wa == wb && a > b);
  };
  // No node below a node is likelier than the node itself.
  const float min_weight = std::log(std::max(kHopelessChance, growth_->min_chance()));
  const auto open = [&](int32_t row) {
    const NodeId node = tree_.node_at(row);
    return tree_.expansion(Role::kDraft, node) == Expansion::kUnexpanded &&
           tree_.weight(node) > min_weight;
  };
  drop_source_nodes();
  open_rows_.clear();
  for (int32_t row = 0; row < tree_.size(); ++row) {
    if (open(row)) open_rows_.push_back(row);
  }
  std::make_heap(open_rows_.begin(), open_rows_.end(), lighter);
  for (int32_t tries = budget; budget > 0 && tries > 0 && !open_rows_.empty(); --tries) {
    std::pop_heap(open_rows_.begin(), open_rows_.end(), lighter);
    const int32_t row = open_rows_.back();
    open_rows_.pop_back();
    const int32_t before = tree_.size();
    add_guesses(tree_.node_at(row), {}, std::min(budget, kSourceWidth));
    budget -= tree_.size() - before;
    for (int32_t added = before; added < tree_.size(); ++added) {
      if (!open(added)) continue;
      open_rows_.push_back(added);
      std::push_heap(open_rows_.begin(), open_rows_.end(), lighter);
    }
  }
}

}  // namespace forerun
