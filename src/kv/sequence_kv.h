// The layout of one sequence's KV in one role's storage (SwiftSpec's invariant). Its slots are
// [prefix | tree region]: the prefix is contiguous in sequence order, and the live tree follows
// with parents before children. This class only keeps the books: the caller copies the KV itself,
// following the list of take_moves().
//
// Only one thread may use an object. It allocates only while the sequence or its tree grows past
// its largest size so far.
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
    int32_t parent_idx = -1;  // index in tree_rows(); -1 if the row continues the prefix
    int32_t position = 0;
    TokenId token = 0;
    int32_t stored_slot = 0;  // where its KV lies until take_moves()
    // Its KV was computed through a view of the prefix, or from a hidden state of the draft head
    // itself.
    bool sparse = false;
  };

  // `pool` and `cache` must outlive the object. The constructor reserves the block table for
  // `max_tokens`. If `cache` is null, the sequence neither takes nor offers blocks of its prefix.
  // Only sequences with the same `salt` share blocks (SequenceSpec::prefix_salt).
  SequenceKv(BlockPool* pool, int32_t max_tokens, PrefixCache* cache = nullptr, uint64_t salt = 0);
  ~SequenceKv();  // releases every block
  SequenceKv(const SequenceKv&) = delete;
  SequenceKv& operator=(const SequenceKv&) = delete;

  // Returns the number of prefix tokens with KV; they lie in slots 0 to prefix_length() - 1.
  int32_t prefix_length() const { return prefix_length_; }
  std::span<const TokenId> prefix() const { return prefix_tokens_; }
  // Return the position of the token in slot 0, and the position after the prefix.
  int32_t first_position() const { return first_position_; }
  int32_t end_position() const { return first_position_ + prefix_length_; }
  std::span<const TreeRow> tree_rows() const { return tree_; }
  int32_t length() const { return prefix_length_ + static_cast<int32_t>(tree_.size()); }
  // Returns the physical blocks; blocks that were let go are -1.
  std::span<const int32_t> block_table() const { return blocks_; }
  int32_t slot_of(int32_t tree_idx) const { return prefix_length_ + tree_idx; }
  // Returns the node's index in tree_rows(), or -1 if the node has no KV here.
  int32_t find(NodeId node) const { return index_.find(node); }

  // Takes blocks for `rows` more rows. Returns kResourceExhausted if the pool has too few; the
  // sequence then holds the same blocks as before.
  Status reserve(int32_t rows);
  // Appends one prefix row and returns its slot. The tree region must be empty, and reserve() must
  // have made room.
  int32_t append_prefix(TokenId token);
  // Appends a tree row behind the others and returns its index. `node` must be new; `parent_idx`
  // and `sparse` are as in TreeRow. reserve() must have made room.
  int32_t append_tree(NodeId node, int32_t parent_idx, TokenId token, bool sparse = false);
  // Says that the first token has no row (a draft head has none for it): slot 0 holds position 1,
  // and only sequences that begin with this token share blocks. The sequence must be empty.
  void skip_first(TokenId token);
  // Gives up all KV and restarts the prefix at this position. The sequence no longer shares blocks,
  // since its blocks begin at other positions than those of other sequences.
  void restart_at(int32_t position);
  // Removes the last rows, down to these sizes.
  void truncate(int32_t prefix_length, int32_t tree_size);

  // Makes the path `nodes`, which starts at the end of the prefix, part of the prefix. Drops the
  // rows that do not descend from its last node, because they contradict the new prefix. An empty
  // path changes nothing. Returns kInternal and changes nothing if the nodes are no such path.
  Status commit(std::span<const NodeId> nodes);
  // Drops all tree rows but `nodes`, which keep their order in the region. The parent of each must
  // be kept or be the prefix. Returns kInternal and changes nothing if it is not, or if a node is
  // unknown.
  Status keep(std::span<const NodeId> nodes);
  // Replaces `moves` by the moves that all calls of commit() and keep() since the last call
  // require: from_slot and to_slot both ascend, and from_slot > to_slot. The caller must carry them
  // out before it appends rows or calls release_unused().
  void take_moves(std::vector<KvMove>& moves);
  // Returns the blocks behind the last slot to the pool.
  void release_unused();
  // Returns the blocks [first, end) to the pool: full prefix blocks that no later row attends to.
  // `first` must be the same in every call, and `end` must not decrease. After the first call the
  // sequence adopts and publishes nothing.
  void let_go(int32_t first, int32_t end);
  // Return the range of the blocks that were let go; both ends are 0 if there are none.
  int32_t let_go_first() const { return let_go_end_ - let_go_; }
  int32_t let_go_end() const { return let_go_end_; }

  // Sharing of prefix blocks. No sequence writes to a full prefix block again, so sharing needs no
  // copy.
  //
  // Returns whether adopt() may find anything: the prefix ends at the end of a block, and no row
  // lies behind it.
  bool can_adopt() const {
    return cache_ != nullptr && published_ == prefix_tokens_.size() && tree_.empty() &&
           prefix_length_ == static_cast<int32_t>(blocks_.size()) * kKvBlockTokens;
  }
  // Extends the prefix by cached full blocks as long as they hold the next of `tokens`, which
  // follow the prefix. Returns the number of tokens by which it grew. Needs can_adopt().
  int32_t adopt(std::span<const TokenId> tokens);
  // Offers the full blocks of the prefix to other sequences; a block that another sequence has
  // offered already replaces this sequence's own copy. The caller must have written the KV and
  // carried out the moves.
  void publish();
  // Returns whether other sequences may take full blocks of the prefix.
  bool is_sharing() const { return cache_ != nullptr; }
  // Stops adopting and publishing, because the prefix will hold KV that was computed through a
  // view, which no other sequence can use.
  void stop_sharing() { cache_ = nullptr; }
  // Returns the id (PrefixCache::Page) of the prefix up to the end of the last block that was
  // adopted or published.
  uint64_t published_text() const { return published_text_; }

 private:
  void rebuild_index();
  void release_all();

  BlockPool* pool_;
  PrefixCache* cache_;
  std::vector<TokenId> prefix_tokens_;
  size_t published_ = 0;     // prefix tokens up to the end of the last published or adopted block
  uint64_t published_text_;  // id of that prefix; at first the salt, the id of the empty prefix
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
