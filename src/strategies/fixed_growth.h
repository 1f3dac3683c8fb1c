// Tree shapes of a fixed size: static expansions (a chain is 1,1,1,...) and best-first trees of w
// leaves per draft step, d steps, bs verified rows.
#pragma once

#include <vector>

#include "strategies/tree_growth.h"

namespace forerun {

// Gives every node of level i children[i] children (SpecInfer's expansion lists); the whole tree is
// verified.
class StaticGrowth : public TreeGrowth {
 public:
  explicit StaticGrowth(std::vector<int32_t> children) : children_(std::move(children)) {}

  void begin_round(const TokenTree& tree, const RoundStart& start) override;
  void next_leaves(TokenTree& tree, std::vector<LeafRequest>& out) override;
  void choose(TokenTree& tree, std::vector<NodeId>& out) override;
  void weigh(const TokenTree& tree, NodeId parent, std::vector<Guess>& guesses) override;
  void on_verified(const TokenTree&, size_t, std::span<const NodeId>,
                   std::span<const TokenId>) override {}
  void on_costs(const CostTable&) override {}
  int32_t source_nodes() const override { return 0; }

 private:
  std::vector<int32_t> children_;
};

// Returns how many guesses to request below `leaf`. If children_per_leaf is 0: the larger of the
// draft width and 8, and at the root enough to fill a verification (after a miss the root is the
// only node).
int32_t children_wanted(const TokenTree& tree, NodeId leaf, int32_t children_per_leaf,
                        int32_t draft_width, int32_t verify_tokens);

// SwiftSpec's maximum-likelihood expansion (§3.1): the draft_width best leaves per draft step.
class BestGrowth : public TreeGrowth {
 public:
  struct Params {
    int32_t verify_tokens = 8;
    int32_t draft_width = 4;
    int32_t draft_depth = 4;        // steps per round
    int32_t children_per_leaf = 0;  // see children_wanted()
    bool has_draft_model = true;
    // Drafts only while the tree has fewer than verify_tokens nodes (Algorithm 1's top-up).
    bool tops_up = false;
  };
  explicit BestGrowth(Params params) : params_(params) {}

  void begin_round(const TokenTree& tree, const RoundStart& start) override;
  void next_leaves(TokenTree& tree, std::vector<LeafRequest>& out) override;
  void choose(TokenTree& tree, std::vector<NodeId>& out) override;
  void weigh(const TokenTree&, NodeId, std::vector<Guess>&) override {}
  void on_verified(const TokenTree&, size_t, std::span<const NodeId>,
                   std::span<const TokenId>) override {}
  void on_costs(const CostTable&) override {}
  int32_t source_nodes() const override { return params_.verify_tokens - 1; }

 private:
  Params params_;
  int32_t steps_ = 0;
  std::vector<NodeId> leaves_;
};

}  // namespace forerun
