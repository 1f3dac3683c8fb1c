// The draft's KV in terms of tokens and nodes, for strategies (SwiftSpec §3.2): the verified text
// is the prefix, and the nodes that the draft has run follow it directly. It does not deal with
// slots. The edits that it collects go with the draft's next item and take effect after all items
// in flight. Pure; one object per request.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "step/work.h"
#include "tree/token_tree.h"

namespace forerun {

class DraftKv {
 public:
  // `draft_vocab`: token ids that are not below it are fed to the draft as its last id; 0: no
  // limit. `is_head`: the draft is a trained head, which runs accepted guesses again once the
  // target's hidden states before them are known.
  explicit DraftKv(int32_t draft_vocab, bool is_head = false)
      : draft_vocab_(draft_vocab), is_head_(is_head) {}

  // Starts with the first `prefix` tokens of the text already in the draft's KV.
  void start(int32_t prefix) { prefix_ = prefix; }

  TokenId token(TokenId token) const {
    return draft_vocab_ > 0 && token >= draft_vocab_ ? draft_vocab_ - 1 : token;
  }
  // Returns the number of verified tokens in the draft's prefix once the items in flight have run.
  int32_t prefix() const { return prefix_; }

  // Appends the verified tokens missing from the prefix, up to `end`, as prefix rows. Only if the
  // tree region is empty: before a root that the draft has not run.
  void add_missing_rows(std::span<const TokenId> verified, int32_t end, WorkItem& item);

  // Reports that the last `missing_rows` of those rows have not been run.
  void take_back(int32_t missing_rows) { prefix_ -= missing_rows; }

  // Moves the root down `path` (the root first) to `next`, the last node's child with the newly
  // verified token, or, if the tree has none, to a new root at `position`. Nodes that the draft has
  // run (or is running) become prefix if they are on the path, stay if they are in next's subtree,
  // and are dropped otherwise; for a trained head only the root becomes prefix, and all others are
  // dropped. Replaces `kept` by the nodes that stay in the draft's KV.
  void move_root(TokenTree& tree, std::span<const NodeId> path, NodeId next, TokenId token,
                 int32_t position, std::vector<NodeId>& kept);

  // Drops the tree's nodes of rows >= size, and their KV.
  void truncate(TokenTree& tree, int32_t size);

  // Moves the pending edits into an item of the draft.
  void take_edits(WorkItem& item);

 private:
  const int32_t draft_vocab_;
  const bool is_head_;
  int32_t prefix_ = 0;
  std::vector<Edit> edits_;
  std::vector<NodeId> scratch_;
};

}  // namespace forerun
