#include "strategies/item_choice.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace forerun {
namespace {

constexpr float kMemory = 1.0f / 48.0f;  // decay per token or item
// Prices of the seconds by which rows make an item slower: of a longer pass, of a longer time at
// the first stage, and of a longer time on a link than at a stage, which makes items queue before
// the link. Found with `simulate_stages --grid`.
constexpr float kPassPrice = 0.1f;
constexpr float kEntryPrice = 2.0f;
constexpr float kPilePrice = 16.0f;
// The factor by which a wait's gain must exceed its cost.
constexpr float kWaitPrice = 2.0f;

bool is_sent(const TokenTree& tree, NodeId node) {
  return tree.expansion(Role::kTarget, node) != Expansion::kUnexpanded;
}

}  // namespace

void ItemChoice::on_costs(const CostTable& costs) { costs_ = costs; }

void ItemChoice::observe_token(bool hit) { hit_ += kMemory * ((hit ? 1.0f : 0.0f) - hit_); }

void ItemChoice::observe_item(bool ends) { ends_ += kMemory * ((ends ? 1.0f : 0.0f) - ends_); }

float ItemChoice::price(int32_t rows) const {
  const float entry = costs_.entry_at(rows);
  return kPassPrice * ends_ * costs_.at(Role::kTarget, rows) + kEntryPrice * entry +
         kPilePrice * (1.0f - ends_) * (costs_.interval_at(rows) - entry);
}

void ItemChoice::choose(const TokenTree& tree, std::vector<NodeId>& nodes) {
  if (!costs_.measured() || costs_.sequences > 1 || nodes.size() < 2) return;
  by_weight_ = nodes;
  std::sort(by_weight_.begin(), by_weight_.end(), [&](NodeId a, NodeId b) {
    const float wa = tree.weight(a);
    const float wb = tree.weight(b);
    return wa > wb || (wa == wb && a < b);
  });
  const float pass = costs_.at(Role::kTarget, 1);
  float saved = 0.0f;
  float best = -std::numeric_limits<float>::infinity();
  size_t kept = 1;
  for (size_t count = 1; count <= by_weight_.size(); ++count) {
    saved += std::exp(tree.weight(by_weight_[count - 1])) * pass;
    const float value = saved - price(static_cast<int32_t>(count));
    if (value <= best) continue;
    best = value;
    kept = count;
  }
  if (kept == nodes.size()) return;
  nodes.assign(by_weight_.begin(), by_weight_.begin() + static_cast<std::ptrdiff_t>(kept));
  std::sort(nodes.begin(), nodes.end());
}

bool ItemChoice::waits(const TokenTree& tree, std::span<const NodeId> nodes,
                       std::span<const NodeId> leaves, float draft_part) const {
  if (costs_.entry[1] <= 0.0f || costs_.sequences > 1 || leaves.empty()) return false;
  float reached = reach(tree, nodes);
  float grown = 0.0f;  // chance that it leads to the nodes that the draft step adds
  for (const NodeId leaf : leaves) {
    if (!tree.contains(leaf)) continue;
    const float chance = hit_ * std::exp(tree.weight(leaf));
    grown += chance;
    if (is_sent(tree, leaf)) reached += chance;
  }
  const float draft = costs_.at(Role::kDraft, static_cast<int32_t>(leaves.size()));
  const float interval = costs_.interval_at(static_cast<int32_t>(nodes.size()));
  if (draft <= 0.0f) return false;
  // The chance that the first miss is 0, 1, 2, ... times `levels` below: the sum of (1 - hit) *
  // hit^(i * levels). `levels` is the number of levels that the draft adds in an interval.
  const float levels = std::max(1.0f, interval / draft);
  const float ends = (1.0f - hit_) / std::max(1e-3f, 1.0f - std::pow(hit_, levels));
  return grown * ends * interval > kWaitPrice * draft_part * draft * reached;
}

float ItemChoice::reach(const TokenTree& tree, std::span<const NodeId> nodes) {
  float reached = 0.0f;
  for (const NodeId node : nodes) {
    const NodeId parent = tree.parent(node);
    if (parent == kNoNode || is_sent(tree, parent)) reached += std::exp(tree.weight(node));
  }
  return reached;
}

}  // namespace forerun
