// One verification: the nodes of a tree that the target runs, and the tokens that result. Pure; one
// object per request, reused in every round.
#pragma once

#include <span>
#include <vector>

#include "strategies/strategy.h"
#include "tree/token_tree.h"

namespace forerun {

class Verification {
 public:
  explicit Verification(AcceptRule rule) : rule_(rule) {}

  // Returns the nodes to run, in order of rows, closed under parents, the root first; the caller
  // fills them in before add_rows(). They must stay in the tree until follow(), after which only
  // those that ran are listed.
  std::vector<NodeId>& nodes() { return nodes_; }
  // Returns the number of guesses among nodes(): all but the root.
  int64_t guesses() const { return static_cast<int64_t>(nodes_.size()) - 1; }

  // Appends a row for each node. A root alone becomes a prefix row, which is plain decoding. If
  // weights are chances (TreeGrowth), the executor may drop rows other than the root's by them.
  void add_rows(const TokenTree& tree, bool weights_are_chances, WorkItem& item);

  // Follows the target's tokens from the root down as far as they were verified, and emits them:
  // those of path() below the root, and the one after its last node. Returns false and does nothing
  // if the result lacks the root's row, or under rule `rejection` any row. If the walk reaches a
  // row that gives no token (RowResult::status), out.error has the reason; sampled() is then one
  // shorter than path(), and the object must not be used further.
  bool follow(const TokenTree& tree, const WorkResult& result, StrategyOutput& out);
  // Return the nodes taken by follow(), the root first, and the token sampled after each of them.
  std::span<const NodeId> path() const { return path_; }
  std::span<const TokenId> sampled() const { return sampled_; }

  // Adds the edits of the target's KV: path() becomes prefix, all other nodes are dropped.
  void add_edits(std::vector<Edit>& edits) const;
  // Returns a record for --show-tree and traces; the tree is still the one that was verified.
  // `next`: the node that becomes its root, or kNoNode.
  RoundRecord record(const TokenTree& tree, NodeId next) const;

 private:
  bool by_rejection() const { return rule_ == AcceptRule::kRejection && nodes_.size() > 1; }
  size_t place_of(NodeId node) const;
  bool keep_those_run(const WorkResult& result);
  void follow_samples(const TokenTree& tree, const WorkResult& result, StrategyOutput& out);
  void follow_rejection(const TokenTree& tree, const WorkResult& result, StrategyOutput& out);

  const AcceptRule rule_;
  std::vector<NodeId> nodes_;
  bool root_is_prefix_ = false;
  std::vector<NodeId> path_;
  std::vector<TokenId> sampled_;
};

}  // namespace forerun
