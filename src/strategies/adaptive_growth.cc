#include "strategies/adaptive_growth.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

namespace forerun {
namespace {

constexpr std::array<int32_t, 4> kWidths = {1, 2, 4, 8};
constexpr int32_t kMaxSteps = 16;           // draft steps per round
constexpr int32_t kStepsAhead = 6;          // draft steps that a plan looks ahead
constexpr int32_t kChildren = 8;            // guesses requested per leaf
constexpr float kMinPlanned = 0.02f;        // smallest chance in plans, which are only estimates
constexpr float kMinGrowthChance = 0.004f;  // less likely guesses are dropped
constexpr float kRoundMemory = 40.0f;       // rounds after which the rate forgets
constexpr float kStartRounds = 6.0f;        // weight of the shared speed-up at the start, in rounds
// The cost of catching up is spread over future rounds, but only over part of those that the
// request may still take, since many requests end early.
constexpr float kRoundsPerTokenLeft = 0.25f;
constexpr float kMaxCatchUpRounds = 64.0f;
// The gain in tokens over a plain round that a drafting round must promise. Costs are known only to
// within a few percent, and the time of a plain Step is not observed while all rounds draft.
constexpr float kMargin = 0.07f;
// The factor on the time of further rows: the chances of chosen rows tend to be too high, and a row
// that only pays for itself gains nothing.
constexpr float kRowPrice = 1.1f;
constexpr float kAllowanceShare = 0.007f;
constexpr float kMaxAllowance = 40.0f;
constexpr int32_t kProbeRounds = 4;
constexpr float kBatchLoss = 1.2f;  // loss of a probe in a batch: all requests wait for its rows
constexpr int32_t kMaxRest = 16;
// In a batch, decisions may take this share of the time, plus a share of the recent gain.
constexpr float kDecisionShare = 0.002f;
constexpr float kDecisionGainShare = 0.5f;
constexpr int32_t kMaxBatchRest = 32;
constexpr int32_t kBatchRestGrowth = 4;  // rounds by which each idle decision lengthens that rest
constexpr float kRestGain = 1.0f;        // tokens that resting may forgo, approximately
// The additional tokens per request of the batch, since all wait while one request decides.
constexpr float kRestGainAWaiter = 1.0f / 16.0f;
constexpr float kBurst = 16.0f;  // gain in text that repeats itself, relative to the average gain
constexpr float kSureChance = 0.98f;  // highest possible chance of the best guesses
constexpr float kSharedSpeedupRate = 1.0f / 200.0f;
constexpr double kPaceMemory = 64.0;  // rounds, over all requests

// For a draft that runs concurrently with the target: the factor on a draft step's time, and the
// smallest chance of a guess. Both were found with parallel_tree_sim_bench.
constexpr float kPriceBeside = 1.3f;
constexpr float kMinGrowthChanceBeside = 1e-4f;

// Ratios that replace costs not yet measured.
constexpr float kUnmeasuredDraftRatio = 0.2f;
constexpr float kUnmeasuredRow = 0.04f;  // cost of a further row, relative to the first

// Inserts into a descending list that keeps its best `capacity` entries.
template <class Value, class Greater>
void insert_descending(std::vector<Value>& list, const Value& value, size_t capacity,
                       Greater greater) {
  size_t place = list.size();
  while (place > 0 && greater(value, list[place - 1])) --place;
  if (place >= capacity) return;
  if (list.size() >= capacity) list.pop_back();
  list.insert(list.begin() + static_cast<std::ptrdiff_t>(place), value);
}

}  // namespace

AdaptiveGrowth::AdaptiveGrowth(const Params& params, std::shared_ptr<SharedAcceptance> shared)
    : params_(params),
      acceptance_(std::move(shared)),
      recent_tokens_(kStartRounds * acceptance_.shared().speedup),
      recent_time_(kStartRounds),
      recent_rounds_(kStartRounds) {
  if (params_.children_per_leaf == 0) params_.children_per_leaf = kChildren;
  AdaptiveGrowth::on_costs({});
}

void AdaptiveGrowth::on_costs(const CostTable& costs) {
  const float plain = costs.at(Role::kTarget, 1);
  for (size_t rows = 1; rows < target_time_.size(); ++rows) {
    const auto n = static_cast<int32_t>(rows);
    if (costs.measured()) {
      target_time_[rows] = costs.at(Role::kTarget, n) / plain;
      draft_time_[rows] = costs.at(Role::kDraft, n) / plain;
    } else {
      target_time_[rows] = 1.0f + kUnmeasuredRow * static_cast<float>(n - 1);
      draft_time_[rows] = kUnmeasuredDraftRatio * target_time_[rows];
    }
  }
  draft_alone_ = costs.draft_alone;
  drafts_together_ = costs.drafts_together && !params_.runs_beside;
  // Requests that draft together must decide at the same time.
  if (drafts_rest_ && !costs.drafts_rest) rest_rounds_ = 0;
  drafts_rest_ = costs.drafts_rest;
  // Once the costs allow sources again, the request stops resting.
  if (!sources_.any() && costs.sources.any()) rest_rounds_ = idle_rounds_ = 0;
  sources_ = costs.sources;
  informs_ = costs.informs;
  const int32_t waiters = costs.sequences > 1 ? costs.sequences : 0;
  look_gain_ = std::min(kRestGain, kRestGainAWaiter * static_cast<float>(waiters));
  decision_price_ = costs.measured() ? costs.decision / plain : 0.0f;
  min_row_ = costs.measured() ? costs.min_row / plain : 0.0f;
  max_gain_ = 0.0f;
  float tokens = 0.0f;
  float chance = 1.0f;
  for (int32_t rows = 2; rows <= kMaxNodes; ++rows) {
    chance *= kSureChance;
    tokens += chance;
    max_gain_ = std::max(max_gain_, tokens - extra_time(rows));
  }
}

float AdaptiveGrowth::extra_time(int32_t rows) const {
  const float price = params_.runs_beside ? 1.0f : kRowPrice;
  return price * (target_time(rows) - target_time(1));
}

int32_t AdaptiveGrowth::rest_after(int32_t idle_rounds) const {
  if (!sources_.any()) return std::min(idle_rounds, kMaxRest);
  const auto rounds = [](float worth, float gain) {
    return static_cast<int32_t>(worth / std::max(gain, kRestGain / kMaxRest));
  };
  const float gain = std::max(0.0f, recent_tokens_ / recent_rounds_ - 1.0f);
  const float affordable = kDecisionShare + kDecisionGainShare * gain;
  const auto by_price =
      static_cast<int32_t>(std::min(decision_price_ / affordable, float{kMaxBatchRest}));
  const int32_t by_gain = std::max(rounds(kRestGain, max_gain_), rounds(look_gain_, kBurst * gain));
  return std::max(std::min(idle_rounds, by_gain),
                  std::min(kBatchRestGrowth * idle_rounds, by_price));
}

size_t AdaptiveGrowth::row_index(int32_t rows) {
  return static_cast<size_t>(std::clamp(rows, 0, CostTable::kMaxRows));
}

float AdaptiveGrowth::draft_time(int32_t rows) const {
  const float beyond =
      std::max(1.0f, static_cast<float>(rows) / static_cast<float>(CostTable::kMaxRows));
  return draft_time_[row_index(rows)] * beyond;
}

float AdaptiveGrowth::rate() const { return std::max(1.0f, recent_tokens_ / recent_time_); }

void AdaptiveGrowth::begin_round(const TokenTree&, const RoundStart& start) {
  start_ = start;
  root_expanded_ = start.root_expanded;
  steps_ = 0;
  time_ = 0.0f;
  told_expected_ = false;
  resting_ = rest_rounds_ > 0;
  if (resting_) --rest_rounds_;
}

AdaptiveGrowth::Choice AdaptiveGrowth::best_choice(const std::vector<float>& chances) const {
  const float cost = rate();
  float expected = 1.0f;
  const float plain = cost * target_time(1);
  Choice best{expected - plain, 1.0f, 1};
  for (size_t i = 0; i < chances.size(); ++i) {
    expected += chances[i];
    const auto nodes = static_cast<int32_t>(i) + 2;
    const float value = expected - plain - cost * extra_time(nodes);
    if (value > best.value) best = {value, expected, nodes};
  }
  return best;
}

int32_t AdaptiveGrowth::offered(const std::vector<float>& chances) const {
  if (min_row_ <= 0.0f) return best_choice(chances).nodes;
  const float least = min_chance();
  size_t count = 0;
  while (count < chances.size() && chances[count] >= least) ++count;
  return static_cast<int32_t>(count) + 1;
}

void AdaptiveGrowth::collect(TokenTree& tree) {
  chances_.clear();
  tree.best_subtree(kMaxNodes + 1, nodes_);
  for (NodeId node : nodes_) {
    if (node != tree.root()) chances_.push_back(std::exp(tree.weight(node)));
  }
  std::sort(chances_.begin(), chances_.end(), std::greater<float>());
  open_.clear();
  tree.best_leaves(2 * kWidths.back(), nodes_);
  for (NodeId node : nodes_) {
    open_.push_back({std::exp(tree.weight(node)),
                     DraftProfile::context_of(node == tree.root(), std::exp(tree.logprob(node)))});
  }
}

void AdaptiveGrowth::imagine_step(int32_t width) {
  const size_t run = std::min(static_cast<size_t>(width), planned_open_.size());
  std::array<Leaf, kWidths.back()> leaves;
  std::copy_n(planned_open_.begin(), run, leaves.begin());
  planned_open_.erase(planned_open_.begin(),
                      planned_open_.begin() + static_cast<std::ptrdiff_t>(run));
  for (size_t i = 0; i < run; ++i) {
    for (float chance : acceptance_.profile().chances(leaves[i].context)) {
      const Leaf child{leaves[i].chance * chance, DraftProfile::context_of(false, chance)};
      if (child.chance < kMinPlanned) break;
      insert_descending(planned_chances_, child.chance, static_cast<size_t>(kMaxNodes),
                        std::greater<float>());
      insert_descending(planned_open_, child, static_cast<size_t>(2 * kWidths.back()),
                        [](const Leaf& a, const Leaf& b) { return a.chance > b.chance; });
    }
  }
}

AdaptiveGrowth::Plan AdaptiveGrowth::best_plan(bool root_first, int32_t rows_behind) {
  Plan best{.value = -1e30f};
  int32_t best_width = 0;
  const float cost = rate();
  const float catch_up_rounds = std::clamp(
      kRoundsPerTokenLeft * static_cast<float>(start_.tokens_left), 1.0f, kMaxCatchUpRounds);
  const float price = params_.runs_beside ? kPriceBeside : 1.0f;
  for (int32_t width : kWidths) {
    // A width beyond the open leaves gives the same plan; and if a width was worse than the
    // previous one, wider ones are worse still.
    if (!root_first && width > 1 && static_cast<size_t>(width / 2) >= open_.size()) break;
    if (width > 1 && best_width < width / 2) break;
    planned_chances_ = chances_;
    planned_open_ = open_;
    float spent = 0.0f;
    float previous = -1e30f;
    for (int32_t step = 0; step < kStepsAhead && !planned_open_.empty(); ++step) {
      const bool root_step = root_first && step == 0;
      const int32_t rows =
          std::min(root_step ? 1 : width, static_cast<int32_t>(planned_open_.size()));
      spent += draft_time(rows);
      if (root_step) {
        spent += (draft_time(1 + rows_behind) - draft_time(1)) / catch_up_rounds;
      }
      imagine_step(rows);
      const Choice choice = best_choice(planned_chances_);
      const float value = choice.value - cost * price * spent;
      if (value > best.value) {
        best = {value, root_first ? 1 : width, choice.tokens, spent + target_time(choice.nodes)};
        best_width = width;
      }
      // Gains shrink with depth; one more step is tried because costs increase in jumps.
      if (step > 1 && value < previous) break;
      previous = value;
    }
  }
  return best;
}

bool AdaptiveGrowth::worth_probing(float loss_per_round, int32_t rows_behind) {
  if (probe_rounds_ > 0) {
    --probe_rounds_;
    return true;
  }
  const float catch_up = draft_time(1 + rows_behind) - draft_time(1);
  // A probe belongs to one request, so no other request shares its draft steps.
  const float alone = (draft_alone_ - 1.0f) * draft_time(1);
  float loss = draft_alone_ * catch_up +
               static_cast<float>(kProbeRounds) * (loss_per_round / rate() + alone);
  if (drafts_together_) loss *= kBatchLoss;
  float& allowance = acceptance_.shared().allowance;
  if (loss > allowance) return false;
  allowance -= loss;
  probe_rounds_ = kProbeRounds - 1;
  // The profile is old, so the probe's observations count for more.
  acceptance_.weaken_profile();
  return true;
}

void AdaptiveGrowth::tell_expected(const Choice& by_text, const Plan* plan) {
  if (std::exchange(told_expected_, true) || !informs_) return;
  SharedAcceptance& shared = acceptance_.shared();
  const double time = target_time(by_text.nodes);
  if (source_nodes() > 0) shared.by_text.add(by_text.tokens, time, kPaceMemory);
  if (plan != nullptr && plan->value > by_text.value + kMargin) {
    shared.by_draft.add(plan->tokens, plan->time, kPaceMemory);
  } else {
    shared.by_draft.add(by_text.tokens, time, kPaceMemory);
  }
}

void AdaptiveGrowth::next_leaves(TokenTree& tree, std::vector<LeafRequest>& out) {
  out.clear();
  if (!params_.has_draft_model || steps_ >= kMaxSteps) return;
  collect(tree);
  if (open_.empty()) return;
  const bool root_first = !root_expanded_;
  const int32_t behind = root_first ? start_.draft_rows_behind : 0;
  const Choice now = best_choice(chances_);
  const Plan plan = best_plan(root_first, behind);
  tell_expected(now, &plan);
  if (!sources_.drafts) return;
  const float more = plan.value - now.value - (root_first ? kMargin : 0.0f);
  gain_ = std::numeric_limits<float>::infinity();
  if (drafts_together_) {
    // All requests that share the plan's first step pay for it together.
    const float tokens = more + rate() * draft_time(1);
    if (tokens > 0.0f && !drafts_rest_) {
      gain_ = std::log1p(tokens / now.tokens);
    } else if (!root_first || !worth_probing(-more, behind)) {
      return;
    }
  } else if (more <= 0.0f && !(root_first && worth_probing(-more, behind))) {
    return;
  }
  const int32_t width = root_first ? 1 : std::max(plan.width, 1);
  tree.best_leaves(width, nodes_);
  for (NodeId node : nodes_) out.push_back({node, params_.children_per_leaf});
  step_time_ = draft_time(static_cast<int32_t>(nodes_.size()) + behind);
  time_ += step_time_;
  root_expanded_ = true;
  ++steps_;
}

void AdaptiveGrowth::on_left_out() {
  time_ -= step_time_;
  root_expanded_ = --steps_ > 0 || start_.root_expanded;
}

void AdaptiveGrowth::choose(TokenTree& tree, std::vector<NodeId>& out) {
  collect(tree);
  if (!params_.has_draft_model) tell_expected(best_choice(chances_), nullptr);
  tree.best_subtree(sources_.any() ? offered(chances_) : 1, out);
}

void AdaptiveGrowth::weigh(const TokenTree& tree, NodeId parent, std::vector<Guess>& guesses) {
  const float parent_chance = std::exp(tree.weight(parent));
  if (sources_.drafts && !sources_.text) {
    std::erase_if(guesses,
                  [](const Guess& guess) { return guess.origin == Guess::Origin::kSource; });
  }
  acceptance_.weigh(guesses);
  if (tree.expansion(Role::kDraft, parent) == Expansion::kExpanded) {
    std::array<float, DraftProfile::kRanks> chances{};
    for (size_t i = 0; i < chances.size() && i < guesses.size(); ++i) {
      chances[i] = std::exp(guesses[i].logprob);
    }
    acceptance_.observe_profile(
        DraftProfile::context_of(parent == tree.root(), std::exp(tree.logprob(parent))), chances);
  }
  // Keeps the best guess at any chance, so that its acceptance can be observed.
  const float least = params_.runs_beside ? kMinGrowthChanceBeside : kMinGrowthChance;
  while (guesses.size() > 1 && parent_chance * std::exp(guesses.back().logprob) < least) {
    guesses.pop_back();
  }
}

void AdaptiveGrowth::on_verified(const TokenTree& tree, size_t nodes, std::span<const NodeId> path,
                                 std::span<const TokenId> sampled) {
  for (size_t i = 0; i < path.size(); ++i) {
    for (NodeId child = tree.first_child(path[i]); child != kNoNode;
         child = tree.next_sibling(child)) {
      acceptance_.observe(tree.note(child), tree.token(child) == sampled[i]);
    }
  }
  end_round(nodes, path.size());
}

bool AdaptiveGrowth::rest_on() {
  end_round(1, 1);
  if (rest_rounds_ == 0) return false;
  --rest_rounds_;
  time_ = 0.0f;
  return true;
}

void AdaptiveGrowth::end_round(size_t nodes, size_t tokens) {
  time_ += target_time(static_cast<int32_t>(nodes));
  SharedAcceptance& shared = acceptance_.shared();
  if (resting_ && informs_) {
    if (source_nodes() > 0) shared.by_text.add(1.0, 1.0, kPaceMemory);
    shared.by_draft.add(1.0, 1.0, kPaceMemory);
  }
  // A wrong guess neither ends the idle rounds nor counts as one.
  if (steps_ > 0 || tokens > 1) {
    idle_rounds_ = 0;
  } else if (!resting_ && nodes == 1) {
    rest_rounds_ = rest_after(++idle_rounds_);
  }
  const float fade = 1.0f - 1.0f / kRoundMemory;
  recent_tokens_ = recent_tokens_ * fade + static_cast<float>(tokens);
  recent_time_ = recent_time_ * fade + time_;
  recent_rounds_ = recent_rounds_ * fade + 1.0f;
  shared.allowance = std::min(shared.allowance + kAllowanceShare * time_, kMaxAllowance);
  shared.speedup += kSharedSpeedupRate * (rate() - shared.speedup);
}

}  // namespace forerun
