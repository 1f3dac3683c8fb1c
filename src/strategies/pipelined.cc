#include "strategies/pipelined.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "step/greedy.h"
#include "strategies/lossy_choice.h"

namespace forerun {
namespace {

constexpr int32_t kPipelinedTreeCapacity = 8192;
constexpr int32_t kDefaultChildren = 16;
// Limits of widths that are derived from costs.
constexpr int32_t kUnmeasuredWidth = 16;
constexpr int32_t kMaxPipelinedWidth = 64;
// Upper bound of the minimum chance required of a node; the root's chance is 1.
constexpr float kMaxRequiredChance = 0.9f;
// Beside other requests, a guess below this chance is not sent: it gains almost nothing and keeps
// the first stage busy when another request's root arrives.
constexpr float kMinChanceBesideOthers = 0.01f;

}  // namespace

OptionSet Pipelined::uses(const TreeShape& shape, bool) {
  using enum SpeculationOption;
  constexpr OptionSet kAlways = {kSource, kShape, kAccept, kSharedNoise, kChildrenPerLeaf};
  switch (shape.kind) {
    case TreeShape::Kind::kLevels:
      return kAlways | OptionSet{kVerifyTokens};
    case TreeShape::Kind::kBest:
      return kAlways | OptionSet{kVerifyTokens, kDraftWidth};
    default:
      return kAlways;
  }
}

Status Pipelined::check(SpeculationPlan& plan) {
  set_default_source(plan, "model");
  if (plan.shape.is_static()) {
    return Status(StatusCode::kInvalidArgument,
                  "shape: found '" + plan.shape.name +
                      "'; accepted with strategy pipelined, whose tree keeps growing while it is "
                      "verified: adaptive, best, levels");
  }
  if (plan.accept.rule == AcceptRule::kRejection) {
    return Status(
        StatusCode::kInvalidArgument,
        "accept rule: found 'rejection'; accepted with strategy pipelined, which picks guesses "
        "by weight: match, relaxed, nucleus");
  }
  return Status();
}

std::unique_ptr<Strategy> Pipelined::make(const SpeculationPlan& plan, const StrategyParts& parts) {
  const bool adaptive = plan.shape.kind == TreeShape::Kind::kAdaptive;
  const PipelinedConfig config{
      .has_draft_model = plan.source.model,
      .by_levels = plan.shape.kind == TreeShape::Kind::kLevels,
      .width_from_costs = adaptive,
      .width = adaptive ? kUnmeasuredWidth : plan.verify_tokens,
      .draft_width = adaptive ? kUnmeasuredWidth : plan.draft_width,
      .children_per_leaf = plan.children_per_leaf > 0 ? plan.children_per_leaf : kDefaultChildren,
      .tree_tokens = plan.models.tree_tokens,
      .target_vocab = plan.models.target_vocab,
      .draft_vocab = plan.models.draft_vocab,
      .record_rounds = parts.record_rounds,
      .accept = plan.accept};
  return std::make_unique<Pipelined>(config, plan.source.make(), parts.shared);
}

Pipelined::Pipelined(const PipelinedConfig& config, std::unique_ptr<DraftSource> source,
                     std::shared_ptr<SharedAcceptance> shared)
    : config_(config),
      width_(config.width),
      guesses_(std::move(source), AcceptRule::kMatch, config.target_vocab),
      acceptance_(std::move(shared)),
      judge_(&acceptance_, /*calibrates=*/!config.by_levels),
      tree_(kPipelinedTreeCapacity),
      draft_kv_(config.draft_vocab) {}

// Sets width_ to the rows that cost the target little more than one row per decoding request.
void Pipelined::on_costs(const CostTable& costs) {
  const bool alone = costs.sequences <= 1;
  choice_.on_costs(costs);
  min_weight_ = alone ? -std::numeric_limits<float>::infinity() : std::log(kMinChanceBesideOthers);
  if (!config_.width_from_costs && alone) width_ = config_.width;
  if (!costs.measured() || (!config_.width_from_costs && alone)) return;
  const int32_t max_width = config_.width_from_costs ? kMaxPipelinedWidth : config_.width;
  if (alone) {
    width_ = kMaxPipelinedWidth - costs.prompt_rows;
    return;
  }
  width_ = 1;
  while (width_ < max_width &&
         costs.at(Role::kTarget, width_ + 1) <= kNearlyFree * costs.at(Role::kTarget, 1)) {
    ++width_;
  }
  // Each gives up its part of the rows that prompts take, where many rows are nearly free.
  if (width_ * costs.sequences >= 2 * costs.prompt_rows) {
    width_ = std::max(1, width_ - (costs.prompt_rows + costs.sequences - 1) / costs.sequences);
  }
  if (width_ < 2) return;
  const float row = (costs.at(Role::kTarget, width_) - costs.at(Role::kTarget, 1)) /
                    (static_cast<float>(width_ - 1) * costs.at(Role::kTarget, 1));
  if (row > 0.0f) min_weight_ = std::max(min_weight_, std::log(std::min(row, kMaxRequiredChance)));
}

void Pipelined::start(const RequestView& request, StrategyOutput& out) {
  sequence_ = request.sequence;
  logprobs_ = request.sampling.logprobs;
  is_lossy_ = config_.accept.rule != AcceptRule::kMatch && is_greedy(request.sampling);
  max_tokens_ = request.max_tokens;
  tokens_.assign(request.tokens.begin(), request.tokens.end());
  guesses_.start(request.prompt_tokens);
  if (tokens_.empty() || length() >= max_tokens_) return;
  tokens_.reserve(static_cast<size_t>(max_tokens_));
  guesses_.observe(tokens_);
  const int32_t known = request.kv_tokens[static_cast<size_t>(Role::kTarget)];
  prefilled_ = known > 0;
  draft_kv_.start(request.kv_tokens[static_cast<size_t>(Role::kDraft)]);
  draft_prefilled_ = draft_kv_.prefix() > 0;
  tree_.skip_ids_below(request.first_node);
  // The token after a row must come before max_tokens.
  tree_.reset(tokens_.back(), length() - 1, max_tokens_ - 2);
  level_.assign(1, tree_.root());
  level_sent_ = false;

  // The root ends the prompt: its row extends the prefix like those before it.
  WorkItem item;
  item.sequence = sequence_;
  item.role = Role::kTarget;
  item.tag = entering_tag_ = next_tag_++;
  item.tells_entry = true;
  item.rows.reserve(static_cast<size_t>(length() - known));
  for (int32_t position = known; position < length(); ++position) {
    item.rows.push_back({.token = tokens_[static_cast<size_t>(position)], .position = position});
  }
  ask(item.rows.back());
  root_is_prefix_ = true;
  level_sent_ = true;
  tree_.set_expansion(Role::kTarget, tree_.root(), Expansion::kInFlight);
  if (prefilled_) ++stats_.target_steps;
  flights_.push_back({.tag = item.tag, .guesses = {}});
  out.work.push_back(std::move(item));
  go_on(out);
}

void Pipelined::on_result(const WorkResult& result, StrategyOutput& out) {
  if (!result.status.ok() || result.tag == 0) return;
  if (result.role == Role::kDraft) {
    for (DraftStep& step : steps_) {
      if (step.tag == result.tag) on_drafted(step, result);
    }
  } else if (result.entered) {
    if (result.tag == entering_tag_) entering_tag_ = 0;
  } else if (!flights_.empty() && flights_.front().tag == result.tag) {
    on_verified(result, out);
    if (!out.error.ok()) return;
  }
  go_on(out);
}

void Pipelined::on_verified(const WorkResult& result, StrategyOutput& out) {
  if (result.tag == entering_tag_) entering_tag_ = 0;
  bool lives = false;
  for (const RowResult& row : result.rows) {
    // The root's row was the prompt's last one.
    const NodeId node = row.node == kNoNode ? tree_.root() : row.node;
    if (!tree_.contains(node)) continue;
    tree_.set_expansion(Role::kTarget, node, Expansion::kExpanded);
    drawn_.insert_or_assign(node, row);
    lives = true;
  }
  Flight flight = std::move(flights_.front());
  flights_.pop_front();
  if (length() >= max_tokens_) return;
  to_record_.insert(to_record_.end(), flight.guesses.begin(), flight.guesses.end());
  const bool moved = walk(out);
  if (lives) choice_.observe_item(moved && !is_sent(tree_.root()));
}

void Pipelined::ask(WorkRow& row) const {
  row.want = is_lossy_ ? Want::kTopK : Want::kSample;
  row.count = is_lossy_ ? kLossyCandidates : 0;
}

void Pipelined::choose_token(NodeId node, RowResult& row) const {
  const Candidate choice = lossy_choice(tree_, node, row.top, config_.accept);
  row.token = choice.token;
  row.logprob = logprobs_ >= 0 ? choice.logprob : 0.0f;
  row.top.resize(std::min(row.top.size(), static_cast<size_t>(std::max(logprobs_, 0))));
}

bool Pipelined::walk(StrategyOutput& out) {
  path_.clear();
  NodeId next = tree_.root();
  bool hit = true;
  for (auto drawn = drawn_.find(next); hit && drawn != drawn_.end(); drawn = drawn_.find(next)) {
    out.error = drawn->second.status;
    if (!out.error.ok()) return false;
    path_.push_back(next);
    if (is_lossy_) choose_token(next, drawn->second);
    learn(next, drawn->second.token);
    next = tree_.child(next, drawn->second.token);
    hit = next != kNoNode && is_sent(next);
    choice_.observe_token(hit);
    if (hit) accept_guess(next);
    tokens_.push_back(drawn->second.token);
    out.tokens.push_back({.token = drawn->second.token,
                          .logprob = drawn->second.logprob,
                          .top = std::move(drawn->second.top),
                          .drafted = hit});
    ++stats_.emitted_tokens;
  }
  if (path_.empty()) return false;
  guesses_.observe(tokens_);
  record(tokens_.back(), hit, out);
  prefilled_ = true;
  if (length() < max_tokens_) move_root(next);
  return true;
}

void Pipelined::learn(NodeId node, TokenId drawn) {
  if (config_.by_levels) return;
  for (NodeId child = tree_.first_child(node); child != kNoNode;
       child = tree_.next_sibling(child)) {
    acceptance_.observe(tree_.note(child), tree_.token(child) == drawn);
  }
}

void Pipelined::accept_guess(NodeId node) {
  ++stats_.accepted_tokens;
  for (SentNode& sent : to_record_) {
    if (sent.node != node) continue;
    sent.accepted = true;
    return;
  }
  for (Flight& flight : flights_) {
    for (SentNode& sent : flight.guesses) {
      if (sent.node != node) continue;
      sent.accepted = true;
      to_record_.push_back(sent);
      flight.guesses.erase(flight.guesses.begin() + (&sent - flight.guesses.data()));
      return;
    }
  }
}

// Records nodes. A node is counted and reported with the first tokens that are emitted after it is
// known whether it is accepted.
void Pipelined::record(TokenId bonus, bool hit, StrategyOutput& out) {
  stats_.drafted_tokens += static_cast<int64_t>(to_record_.size());
  if (config_.record_rounds && (prefilled_ || !to_record_.empty())) {
    RoundRecord round;
    RoundRecord::Node root;
    root.token = tree_.token(path_.front());
    root.accepted = true;
    round.nodes.push_back(root);
    for (const SentNode& sent : to_record_) {
      RoundRecord::Node node;
      node.token = sent.token;
      node.logprob = sent.logprob;
      node.origin = sent.origin;
      node.accepted = sent.accepted;
      node.parent = 0;  // also if its parent was reported earlier
      for (size_t idx = 0; idx < round.nodes.size() - 1; ++idx) {
        if (to_record_[idx].node == sent.parent) node.parent = static_cast<int32_t>(idx) + 1;
      }
      round.nodes.push_back(node);
    }
    round.bonus = bonus;
    round.reroot = hit ? Reroot::kHit : tree_.size() > 1 ? Reroot::kMiss : Reroot::kNone;
    out.rounds.push_back(std::move(round));
  }
  to_record_.clear();
}

void Pipelined::move_root(NodeId next) {
  tree_.nodes_with_kv(Role::kTarget, nodes_);
  const size_t had_kv = nodes_.size();
  const bool miss = next == kNoNode || !is_sent(next);
  committed_.insert(committed_.end(), path_.begin() + (root_is_prefix_ ? 1 : 0), path_.end());
  root_is_prefix_ = false;
  draft_kv_.move_root(tree_, path_, next, tokens_.back(), length() - 1, nodes_);
  draft_nodes_ = static_cast<int32_t>(nodes_.size());
  tree_.nodes_with_kv(Role::kTarget, nodes_);
  drops_ |= had_kv > path_.size() + nodes_.size();
  rows_with_kv_ = static_cast<int32_t>(nodes_.size());
  std::erase_if(drawn_, [this](const auto& entry) { return !tree_.contains(entry.first); });
  if (!config_.by_levels) return;
  if (miss) {
    level_.assign(1, tree_.root());
    level_sent_ = false;
  } else {
    restore_level();
  }
}

void Pipelined::go_on(StrategyOutput& out) {
  if (length() >= max_tokens_ || tokens_.empty()) return;
  if (!config_.has_draft_model) grow_by_source();
  if (config_.by_levels) next_level();
  if (config_.has_draft_model && config_.width_from_costs) draft(out);
  if (entering_tag_ == 0) send(out);
  if (drops_) {
    // Sends the edits now, so that dropped rows in flight are not computed further.
    WorkItem prune;
    prune.sequence = sequence_;
    prune.role = Role::kTarget;
    take_target_edits(prune);
    out.work.push_back(std::move(prune));
  }
  if (config_.has_draft_model) draft(out);
  for (DraftStep& step : steps_) step.is_new = false;
}

void Pipelined::take_target_edits(WorkItem& item) {
  if (!committed_.empty()) {
    item.edits.push_back({.kind = Edit::Kind::kCommit, .nodes = std::exchange(committed_, {})});
  }
  if (!std::exchange(drops_, false)) return;
  Edit keep{.kind = Edit::Kind::kKeep, .nodes = {}};
  tree_.nodes_with_kv(Role::kTarget, keep.nodes);
  if (root_is_prefix_) std::erase(keep.nodes, tree_.root());
  item.edits.push_back(std::move(keep));
}

void Pipelined::send(StrategyOutput& out) {
  // Nodes without room wait until other nodes are committed or dropped.
  const int32_t room =
      config_.tree_tokens > 0 ? std::max(0, config_.tree_tokens - rows_with_kv_) : width_;
  if (!config_.by_levels) {
    tree_.best_unrun(Role::kTarget, std::min(width_, room), nodes_);
    std::erase_if(nodes_, [this](NodeId node) { return tree_.weight(node) < min_weight_; });
    if (config_.width_from_costs) choice_.choose(tree_, nodes_);
  } else if (level_sent_ || static_cast<int32_t>(level_.size()) > room) {
    nodes_.clear();
  } else {
    nodes_ = level_;
    level_sent_ = true;
  }
  if (nodes_.empty() || waits()) return;
  WorkItem item;
  item.sequence = sequence_;
  item.role = Role::kTarget;
  item.tag = entering_tag_ = next_tag_++;
  item.tells_entry = true;
  take_target_edits(item);
  Flight flight{.tag = item.tag, .guesses = {}};
  item.rows.reserve(nodes_.size());
  flight.guesses.reserve(nodes_.size());
  for (const NodeId node : nodes_) add_row(node, item, flight);
  ++stats_.target_steps;
  flights_.push_back(std::move(flight));
  out.work.push_back(std::move(item));
}

bool Pipelined::waits() const {
  if (!config_.width_from_costs) return false;
  return std::any_of(steps_.begin(), steps_.end(), [this](const DraftStep& step) {
    return step.tag != 0 && choice_.waits(tree_, nodes_, step.leaves, step.is_new ? 1.0f : 0.5f);
  });
}

void Pipelined::add_row(NodeId node, WorkItem& item, Flight& flight) {
  const NodeId parent = tree_.parent(node);
  item.rows.push_back({.token = tree_.token(node),
                       .position = tree_.position(node),
                       .node = node,
                       .parent = root_is_prefix_ && parent == tree_.root() ? kNoNode : parent});
  ask(item.rows.back());
  tree_.set_expansion(Role::kTarget, node, Expansion::kInFlight);
  ++rows_with_kv_;
  if (parent == kNoNode) return;
  flight.guesses.push_back({.node = node,
                            .parent = parent,
                            .token = tree_.token(node),
                            .logprob = tree_.logprob(node),
                            .origin = tree_.origin(node)});
}

}  // namespace forerun
