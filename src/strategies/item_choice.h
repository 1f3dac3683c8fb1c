// Which rows an item of Pipelined holds, and when it enters, by the costs of Steps and by how often
// guesses turned out right.
//
// The measure. A cycle of the pipeline begins with a miss and ends with the next one. Its time is
// one pass, plus the wait until the last right guess was sent; so
// - a row that is right with probability p saves p of a pass, which its lack would cost, and
// - what makes an item slower (a longer pass, a longer interval until the next item) costs as much
//   as it makes the end of the cycle later: all of the pass if the cycle ends in this item, the
//   interval if it ends in a later one.
// Chances are those of the tree's weights.
//
// Pure arithmetic; one object a request.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "step/cost_table.h"
#include "tree/token_tree.h"

namespace forerun {

class ItemChoice {
 public:
  // Where nothing has been measured, or several sequences decode, choose() keeps everything; there
  // and where the target has no stages, nothing waits.
  void on_costs(const CostTable& costs);

  // A token has come out. `hit`: whether that guess had been sent.
  void observe_token(bool hit);
  // An item has come back with rows that were still in the tree. `ends`: whether its tokens end a
  // cycle.
  void observe_item(bool ends);

  // Keeps those of `nodes`, which are in the tree's order, that are worth their cost. The heaviest
  // one always is.
  void choose(const TokenTree& tree, std::vector<NodeId>& nodes);
  // Whether an item of `nodes`, which could enter now, had better wait for the draft step under
  // way, which runs `leaves`: it then also holds their children, and all items are that much later.
  // `draft_part`: the part of the draft step that is still to come.
  bool waits(const TokenTree& tree, std::span<const NodeId> nodes, std::span<const NodeId> leaves,
             float draft_part) const;
  // Whether such an item had better wait for the result of the item of `rows`, sent `seconds` ago:
  // if that ends the cycle, the first stage is free for the new root at once, and not after an
  // interval.
  bool waits_for(const TokenTree& tree, std::span<const NodeId> nodes, std::span<const NodeId> rows,
                 float seconds) const;
  // Seconds until the first stage is done with an item of so many rows, and seconds of a draft
  // step.
  float entry(size_t rows) const { return costs_.entry_at(static_cast<int32_t>(rows)); }
  float draft(size_t rows) const { return costs_.at(Role::kDraft, static_cast<int32_t>(rows)); }

 private:
  // Seconds that the cycle's end is later for an item of so many rows.
  float price(int32_t rows) const;
  // Chance that the text leads to what has not been sent, of which `nodes` are the best.
  static float reach(const TokenTree& tree, std::span<const NodeId> nodes);

  CostTable costs_;
  float hit_ = 0.7f;               // share of tokens that had been sent, fading
  float ends_ = 0.4f;              // share of live items that end a cycle, fading
  std::vector<NodeId> by_weight_;  // scratch
};

}  // namespace forerun
