#include "strategies/parallel_tree.h"

#include <algorithm>
#include <utility>

#include "base/status_macros.h"
#include "strategies/fixed_growth.h"
#include "strategies/make_growth.h"

namespace forerun {
namespace {

constexpr int32_t kParallelTreeCapacity = 4096;
constexpr float kMaxDepth = 64.0f;
// Limits of widths that are derived from costs.
constexpr int32_t kMinParallelWidth = 2;
constexpr int32_t kMaxParallelWidth = 16;

}  // namespace

// Returns the options in use. "adaptive" derives width and depth from costs, once they are
// measured; it uses the other options as "best" does.
OptionSet ParallelTree::uses(const TreeShape& shape, bool) {
  using enum SpeculationOption;
  constexpr OptionSet kAlways = {kSource,     kShape,      kAccept,      kVerifyTokens,
                                 kDraftWidth, kDraftDepth, kSharedNoise, kChildrenPerLeaf};
  const bool adaptive = shape.kind == TreeShape::Kind::kAdaptive;
  return adaptive ? kAlways | OptionSet{kExtraDraftSteps} : kAlways;
}

Status ParallelTree::check(SpeculationPlan& plan) {
  FORERUN_RETURN_IF_ERROR(refuse_levels(plan));
  // A source makes guesses only at nodes that the draft runs, while the target works, so its
  // guesses save no draft Step.
  set_default_source(plan, "model");
  if (plan.shape.is_static()) {
    return Status(StatusCode::kInvalidArgument,
                  "shape: found '" + plan.shape.name +
                      "'; accepted with strategy parallel_tree, whose tree keeps growing while it "
                      "is verified: adaptive, best");
  }
  if (plan.accept.rule != AcceptRule::kMatch) {
    return Status(StatusCode::kInvalidArgument,
                  "accept rule: found '" + plan.accept.name() +
                      "'; accepted with strategy parallel_tree, which picks guesses by weight: "
                      "match");
  }
  return Status();
}

std::unique_ptr<Strategy> ParallelTree::make(const SpeculationPlan& plan,
                                             const StrategyParts& parts) {
  const ParallelTreeConfig config{.verify_tokens = plan.verify_tokens,
                                  .draft_width = plan.draft_width,
                                  .draft_depth = plan.draft_depth,
                                  .sizes_from_costs = plan.shape.kind == TreeShape::Kind::kAdaptive,
                                  .extra_draft_steps = plan.extra_draft_steps,
                                  .children_per_leaf = plan.children_per_leaf,
                                  .target_vocab = plan.models.target_vocab,
                                  .draft_vocab = plan.models.draft_vocab,
                                  .record_rounds = parts.record_rounds};
  return std::make_unique<ParallelTree>(config, plan.source.make(),
                                        make_growth(plan, /*runs_beside=*/true, parts.shared));
}

ParallelTree::ParallelTree(const ParallelTreeConfig& config, std::unique_ptr<DraftSource> source,
                           std::unique_ptr<TreeGrowth> growth)
    : config_(config),
      guesses_(std::move(source), AcceptRule::kMatch, config.target_vocab),
      growth_(std::move(growth)),
      tree_(kParallelTreeCapacity),
      draft_kv_(config.draft_vocab),
      width_(config.draft_width),
      depth_(config.draft_depth),
      verification_(AcceptRule::kMatch) {}

// SwiftSpec §3.1: d is the number of steps that fit into a verification. Of the paper's r and r + 1
// this uses r: a step in flight when the target's tokens arrive delays the top-up after a miss,
// which costs more than the step gains. w: wider steps cover more of the nodes at which the text
// may continue, but fewer steps make the tree shallower; doubling the width must cost less than a
// quarter of the steps. Both rules were found with parallel_tree_sim_bench.
void ParallelTree::on_costs(const CostTable& costs) {
  growth_->on_costs(costs);
  const bool known = costs.measured() && costs.at(Role::kDraft, 1) > 0.0f;
  if (!config_.sizes_from_costs || !known) return;
  const auto steps_of = [&](int32_t width) {
    const float step = costs.at(Role::kDraft, width);
    const float target = costs.at(Role::kTarget, config_.verify_tokens);
    return static_cast<int32_t>(std::clamp(target / step, 1.0f, kMaxDepth));
  };
  width_ = kMinParallelWidth;
  while (width_ < kMaxParallelWidth && 4 * steps_of(2 * width_) > 3 * steps_of(width_)) width_ *= 2;
  depth_ = steps_of(width_) + config_.extra_draft_steps;
}

void ParallelTree::start(const RequestView& request, StrategyOutput& out) {
  sequence_ = request.sequence;
  max_tokens_ = request.max_tokens;
  tokens_.assign(request.tokens.begin(), request.tokens.end());
  guesses_.start(request.prompt_tokens);
  if (tokens_.empty() || length() >= max_tokens_) return;
  tokens_.reserve(static_cast<size_t>(max_tokens_));
  guesses_.observe(tokens_);
  const int32_t known = request.kv_tokens[static_cast<size_t>(Role::kTarget)];
  target_prefilled_ = known > 0;
  if (target_prefilled_) ++stats_.target_steps;
  draft_kv_.start(request.kv_tokens[static_cast<size_t>(Role::kDraft)]);
  draft_prefilled_ = draft_kv_.prefix() > 0;
  tree_.skip_ids_below(request.first_node);
  // The token after a row must come before max_tokens.
  tree_.reset(tokens_.back(), length() - 1, max_tokens_ - 2);

  WorkItem item;
  item.sequence = sequence_;
  item.role = Role::kTarget;
  item.tag = verification_tag_ = next_tag_++;
  item.rows.reserve(static_cast<size_t>(length() - known));
  for (int32_t position = known; position + 1 < length(); ++position) {
    item.rows.push_back({.token = tokens_[static_cast<size_t>(position)], .position = position});
  }
  verification_.nodes().assign(1, tree_.root());
  verification_.add_rows(tree_, /*weights_are_chances=*/false, item);
  out.work.push_back(std::move(item));
  go_on(out);
}

void ParallelTree::on_result(const WorkResult& result, StrategyOutput& out) {
  if (!result.status.ok() || result.tag == 0) return;
  if (result.tag == verification_tag_) {
    on_verified(result, out);
    if (!out.error.ok()) return;
  } else {
    for (DraftStep& step : steps_) {
      if (step.tag == result.tag) on_drafted(step, result);
    }
  }
  go_on(out);
}

void ParallelTree::on_drafted(DraftStep& step, const WorkResult& result) {
  step.tag = 0;
  for (size_t i = 0; i < step.leaves.size(); ++i) {
    const LeafRequest& leaf = step.leaves[i];
    if (!tree_.contains(leaf.node)) continue;
    tree_.set_expansion(Role::kDraft, leaf.node, Expansion::kExpanded);
    if (i >= result.rows.size()) continue;
    guesses_.add_children(tree_, leaf.node, result.rows[i].top, leaf.count, *growth_);
  }
}

void ParallelTree::on_verified(const WorkResult& result, StrategyOutput& out) {
  const size_t emitted = out.tokens.size();
  if (!verification_.follow(tree_, result, out)) return;
  verification_tag_ = 0;
  const auto first = static_cast<size_t>(length());
  for (size_t i = emitted; i < out.tokens.size(); ++i) tokens_.push_back(out.tokens[i].token);
  guesses_.observe(tokens_);
  stats_.emitted_tokens += static_cast<int64_t>(tokens_.size() - first);
  stats_.drafted_tokens += verification_.guesses();
  stats_.accepted_tokens += static_cast<int64_t>(verification_.path().size()) - 1;
  if (!out.error.ok()) return;
  const NodeId next = tree_.child(verification_.path().back(), tokens_.back());
  if (target_prefilled_) {
    if (config_.record_rounds) out.rounds.push_back(verification_.record(tree_, next));
    growth_->on_verified(tree_, verification_.nodes().size(), verification_.path(),
                         verification_.sampled());
  }
  target_prefilled_ = true;
  verification_.add_edits(target_edits_);
  if (length() >= max_tokens_) return;
  move_root(next);
  begin_round();
}

void ParallelTree::move_root(NodeId next) {
  draft_kv_.move_root(tree_, verification_.path(), next, tokens_.back(), length() - 1, nodes_);
  draft_nodes_ = static_cast<int32_t>(nodes_.size());
}

void ParallelTree::begin_round() {
  const bool root_expanded = tree_.expansion(Role::kDraft, tree_.root()) != Expansion::kUnexpanded;
  growth_->begin_round(tree_, {.draft_rows_behind = length() - 1 - draft_kv_.prefix(),
                               .root_expanded = root_expanded,
                               .tokens_left = max_tokens_ - length()});
}

void ParallelTree::go_on(StrategyOutput& out) {
  if (length() >= max_tokens_) return;
  if (verification_tag_ == 0) top_up_or_verify(out);
  if (verification_tag_ != 0) draft_ahead(out);
}

void ParallelTree::top_up_or_verify(StrategyOutput& out) {
  if (tree_is_growing()) {
    if (tree_.size() < config_.verify_tokens) return;
  } else if (DraftStep* step = idle_step();
             step != nullptr && draft_nodes_ + width_ <= kMaxDraftNodes) {
    growth_->next_leaves(tree_, step->leaves);
    if (!step->leaves.empty()) return submit_draft_step(*step, out);
  }
  submit_verification(out);
}

void ParallelTree::draft_ahead(StrategyOutput& out) {
  DraftStep* step = idle_step();
  const int32_t width = std::min(width_, kMaxDraftNodes - draft_nodes_);
  if (step == nullptr || steps_ahead_ >= depth_ || width <= 0 || tree_is_growing()) return;
  tree_.best_leaves(width, nodes_);
  if (nodes_.empty()) return;
  step->leaves.clear();
  for (NodeId node : nodes_) {
    step->leaves.push_back({node, children_wanted(tree_, node, config_.children_per_leaf,
                                                  config_.draft_width, config_.verify_tokens)});
  }
  ++steps_ahead_;
  submit_draft_step(*step, out);
}

ParallelTree::DraftStep* ParallelTree::idle_step() {
  for (DraftStep& step : steps_) {
    if (step.tag == 0) return &step;
  }
  return nullptr;
}

bool ParallelTree::tree_is_growing() const {
  for (const DraftStep& step : steps_) {
    if (step.tag == 0) continue;
    for (const LeafRequest& leaf : step.leaves) {
      if (tree_.contains(leaf.node)) return true;
    }
  }
  return false;
}

void ParallelTree::submit_verification(StrategyOutput& out) {
  growth_->choose(tree_, verification_.nodes());
  WorkItem item;
  item.sequence = sequence_;
  item.role = Role::kTarget;
  item.tag = verification_tag_ = next_tag_++;
  item.edits = std::exchange(target_edits_, {});
  verification_.add_rows(tree_, growth_->weights_are_chances(), item);
  ++stats_.target_steps;
  steps_ahead_ = 0;
  out.work.push_back(std::move(item));
}

void ParallelTree::submit_draft_step(DraftStep& step, StrategyOutput& out) {
  WorkItem item;
  item.sequence = sequence_;
  item.role = Role::kDraft;
  item.tag = step.tag = next_tag_++;
  draft_kv_.take_edits(item);
  if (draft_prefilled_) ++stats_.draft_steps;
  draft_prefilled_ = true;
  // A root that has not run has only the verified text before it.
  if (step.leaves.front().node == tree_.root()) {
    draft_kv_.add_missing_rows(tokens_, length() - 1, item);
  }
  item.rows.reserve(item.rows.size() + step.leaves.size());
  for (const LeafRequest& leaf : step.leaves) {
    item.rows.push_back({.token = draft_kv_.token(tree_.token(leaf.node)),
                         .position = tree_.position(leaf.node),
                         .node = leaf.node,
                         .parent = tree_.parent(leaf.node),
                         .want = Want::kTopK,
                         .count = leaf.count});
    tree_.set_expansion(Role::kDraft, leaf.node, Expansion::kInFlight);
  }
  draft_nodes_ += static_cast<int32_t>(step.leaves.size());
  out.work.push_back(std::move(item));
}

}  // namespace forerun
