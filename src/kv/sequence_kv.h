// Where one sequence's KV lies in one role's storage (SwiftSpec's invariant): slots
// [prefix | tree region], the prefix contiguous in sequence order, the live tree right behind it,
// parents before children. Bookkeeping only: the caller moves the KV itself, by the list of
// take_moves().
//
// Used by one thread. Allocates only while a sequence or its tree grows past its largest size so
// far.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "forerun/status.h"
#include "kv/block_pool.h"
#include "kv/node_index.h"
#include "kv/prefix_cache.h"
#include "step/step.h"
#include "step/types.h"

namespace forerun {

class SequenceKv {
 public:
  struct TreeRow {
    NodeId node = kNoNode;
    int32_t parent_idx = -1;  // index in tree_rows(); -1: it continues the prefix
    int32_t position = 0;
    TokenId token = 0;
    int32_t stored_slot = 0;  // where its KV lies until take_moves()
    // Computed through a view of the prefix, or from a hidden state of a draft head's own.
    bool sparse = false;
  };

  // `pool` and `cache` must outlive the object. `max_tokens`: the block table's capacity is
  // reserved for it. `cache` null: the sequence neither takes nor offers blocks of its prefix.
  // `salt`: blocks are shared only among sequences with the same salt (SequenceSpec::prefix_salt).
  SequenceKv(BlockPool* pool, int32_t max_tokens, PrefixCache* cache = nullptr, uint64_t salt = 0);
  ~SequenceKv();  // releases every block
  SequenceKv(const SequenceKv&) = delete;
  SequenceKv& operator=(const SequenceKv&) = delete;

  // The tokens with KV lie in slots 0 to prefix_length() - 1.
  int32_t prefix_length() const { return prefix_length_; }
  std::span<const TokenId> prefix() const { return prefix_tokens_; }
  // The position of the token in slot 0, and that behind the prefix.
  int32_t first_position() const { return first_position_; }
  int32_t end_position() const { return first_position_ + prefix_length_; }
  std::span<const TreeRow> tree_rows() const { return tree_; }
  int32_t length() const { return prefix_length_ + static_cast<int32_t>(tree_.size()); }
  // -1 for blocks that have been let go.
  std::span<const int32_t> block_table() const { return blocks_; }
  int32_t slot_of(int32_t tree_idx) const { return prefix_length_ + tree_idx; }
  // Index in tree_rows(), -1 where the node has no KV here.
  int32_t find(NodeId node) const { return index_.find(node); }

  // Takes blocks for `rows` more rows. kResourceExhausted where the pool has too few: the sequence
  // then holds what it held.
  Status reserve(int32_t rows);
  // Appends one prefix row and returns its slot. Needs an empty tree region and reserve()d room.
  int32_t append_prefix(TokenId token);
  // Appends a tree row behind the others and returns its index. `node` is new; `parent_idx` as in
  // TreeRow, so is `sparse`. Needs reserve()d room.
  int32_t append_tree(NodeId node, int32_t parent_idx, TokenId token, bool sparse = false);
  // The text's first token has no row (a draft head has none for it): slot 0 is for position 1, and
  // blocks are shared only among texts that begin with this token. Needs an empty sequence.
  void skip_first(TokenId token);
  // Gives up all KV: the prefix begins anew, at this position. Blocks are no longer shared, since
  // they begin at other positions than those of other sequences.
  void restart_at(int32_t position);
  // Takes back the rows appended last, down to these sizes.
  void truncate(int32_t prefix_length, int32_t tree_size);

  // The path `nodes`, which starts at the end of the prefix, becomes prefix. Rows that do not
  // descend from its last node contradict the new prefix and are dropped. An empty path changes
  // nothing. kInternal where the nodes are no such path; nothing has changed then.
  Status commit(std::span<const NodeId> nodes);
  // Drops all tree rows but `nodes`, which keep their order in the region. Every parent must be
  // kept or be the prefix. kInternal where it is not or a node is unknown; nothing has changed
  // then.
  Status keep(std::span<const NodeId> nodes);
  // The moves that all calls of commit() and keep() since the last call require: from_slot and
  // to_slot both ascend, and from_slot > to_slot. They must be carried out before rows are
  // appended, and before release_unused().
  void take_moves(std::vector<KvMove>& moves);
  // Returns the blocks behind the last slot to the pool.
  void release_unused();
  // Returns the blocks [first, end) to the pool: full blocks of the prefix that no row will see
  // again. `first` must be the same in every call, and `end` must not decrease. Nothing is adopted
  // or published from now on.
  void let_go(int32_t first, int32_t end);
  // The range of the blocks let go; 0 and 0 where there are none.
  int32_t let_go_first() const { return let_go_end_ - let_go_; }
  int32_t let_go_end() const { return let_go_end_; }

  // Sharing. Nobody writes to a full prefix block again, so it needs no copy.
  //
  // Whether adopt() may find anything: the prefix ends at the end of a block, and nothing lies
  // behind it.
  bool can_adopt() const {
    return cache_ != nullptr && published_ == prefix_tokens_.size() && tree_.empty() &&
           prefix_length_ == static_cast<int32_t>(blocks_.size()) * kKvBlockTokens;
  }
  // Extends the prefix by cached full blocks as long as they hold the next of `tokens`, the text
  // that follows, and returns by how many tokens. Needs can_adopt().
  int32_t adopt(std::span<const TokenId> tokens);
  // Offers the full blocks of the prefix to other sequences; where another sequence has offered the
  // same block already, it replaces this sequence's own. The KV must have been written and the
  // moves carried out.
  void publish();
  // Whether full blocks of the prefix are offered to others.
  bool is_sharing() const { return cache_ != nullptr; }
  // From now on nothing is adopted or published: the prefix will hold KV that was computed through
  // a view, which no other sequence can use.
  void stop_sharing() { cache_ = nullptr; }
  // The text up to the end of the last block that was adopted or published.
  uint64_t published_text() const { return published_text_; }

 private:
  void rebuild_index();
  void release_all();

  BlockPool* pool_;
  PrefixCache* cache_;
  std::vector<TokenId> prefix_tokens_;
  size_t published_ = 0;     // prefix tokens up to the end of the last published or adopted block
  uint64_t published_text_;  // at first the salt, which stands before all texts
  std::vector<int32_t> blocks_;
  std::vector<TreeRow> tree_;
  NodeIndex index_;
  std::vector<KvMove> pending_;     // moves of rows committed since take_moves()
  std::vector<int32_t> new_index_;  // scratch
  int32_t prefix_length_ = 0;
  int32_t first_position_ = 0;
  int32_t let_go_ = 0;  // blocks that have been let go
  int32_t let_go_end_ = 0;
};

}  // namespace forerun
