// Chooses the rows of an item of Pipelined and the time when it enters, from the costs of Steps and
// from how often guesses have been accepted.
//
// The measure: a cycle of the pipeline begins with a miss and ends with the next one. Its time is
// one pass, plus the wait until the last accepted guess was sent. Therefore:
// - a row that is accepted with probability p saves p of the pass that its absence would cost, and
// - a slower item (a longer pass, or a longer interval until the next item) costs as much as it
//   delays the end of the cycle: the whole pass if the cycle ends in this item, the interval if it
//   ends in a later one.
// The chances are those of the tree's weights.
//
// Thread rules: pure arithmetic; one object per request.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "step/cost_table.h"
#include "tree/token_tree.h"

namespace forerun {

class ItemChoice {
 public:
  // If nothing has been measured, or several sequences decode, choose() keeps all nodes; in these
  // cases and if the target has no stages, no item waits.
  void on_costs(const CostTable& costs);

  // Records an emitted token. `hit`: whether its guess had been sent.
  void observe_token(bool hit);
  // Records a result with rows that were still in the tree. `ends`: whether its tokens end a cycle.
  void observe_item(bool ends);

  // Keeps those `nodes` (in the tree's order) that are worth their cost; always keeps the one with
  // the highest weight.
  void choose(const TokenTree& tree, std::vector<NodeId>& nodes);
  // Returns whether an item of `nodes` that could enter now should wait for the running draft step
  // with `leaves`: the item then also holds their children, and all items are later by the wait.
  // `draft_part`: the part of the draft step that remains.
  bool waits(const TokenTree& tree, std::span<const NodeId> nodes, std::span<const NodeId> leaves,
             float draft_part) const;

 private:
  // Returns the seconds by which an item of this many rows delays the cycle's end.
  float price(int32_t rows) const;
  // Returns the chance that the text continues with nodes that have not been sent, of which `nodes`
  // are the best.
  static float reach(const TokenTree& tree, std::span<const NodeId> nodes);

  CostTable costs_;
  float hit_ = 0.7f;               // share of tokens that had been sent, decaying
  float ends_ = 0.4f;              // share of live items that end a cycle, decaying
  std::vector<NodeId> by_weight_;  // reused memory
};

}  // namespace forerun
