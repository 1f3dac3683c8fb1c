// Reuse of shared prefixes' KV by prompts in one Step (SequenceSpec::share_prefix): rows with
// cached blocks do not run, and a prompt waits for a block that another prompt of the Step is
// computing.
#pragma once

#include <cstdint>
#include <vector>

#include "exec/role/pending_item.h"
#include "exec/role/role_sequence.h"
#include "step/work.h"

namespace forerun {

class PrefixReuse {
 public:
  // A whole or partial block of a shared prefix: its first row, and the id of the prefix before it
  // (SequenceKv::published_text()).
  struct BlockInWork {
    uint64_t before = 0;
    const WorkRow* rows = nullptr;  // null if the block cannot be shared
  };

  void begin_step() { in_work_.clear(); }
  // Skips prefix rows with cached KV at the front of the item. Returns true if another sequence of
  // the Step computes the next block, which will be cached after the Step.
  bool skip_cached(RoleSequence& sequence, PendingItem& item);
  // Returns the prefix block that the item's next rows begin or continue, before they are added to
  // the Step.
  static BlockInWork next_block(const RoleSequence& sequence, const PendingItem& item);
  // Records that this Step computes the block; its rows must not move until begin_step().
  void note_in_work(const BlockInWork& block) {
    if (block.rows != nullptr) in_work_.push_back(block);
  }

 private:
  std::vector<BlockInWork> in_work_;
  std::vector<TokenId> tokens_;  // scratch for the tokens of one block
};

}  // namespace forerun
