// Lets prompts of one Step take over KV of shared prefixes (SequenceSpec::share_prefix): rows whose
// blocks are cached are not run, and a prompt waits for a block that another one of the Step is
// just computing.
#pragma once

#include <cstdint>
#include <vector>

#include "exec/role/pending_item.h"
#include "exec/role/role_sequence.h"
#include "step/work.h"

namespace forerun {

class PrefixReuse {
 public:
  // A block of a shared prefix, in whole or in part: its text's first row, and the hash of the text
  // before it.
  struct BlockInWork {
    uint64_t before = 0;
    const WorkRow* rows = nullptr;  // null: the block cannot be shared
  };

  void begin_step() { in_work_.clear(); }
  // Skips prefix rows at the front of the item whose KV is cached. True where another sequence of
  // the Step computes the next block: it will be cached after the Step.
  bool skip_cached(RoleSequence& sequence, PendingItem& item);
  // The prefix block that the item's next rows begin or continue, before they are added to the
  // Step.
  static BlockInWork next_block(const RoleSequence& sequence, const PendingItem& item);
  // The block is computed in this Step; its rows must stay where they are until begin_step().
  void note_in_work(const BlockInWork& block) {
    if (block.rows != nullptr) in_work_.push_back(block);
  }

 private:
  std::vector<BlockInWork> in_work_;
  std::vector<TokenId> tokens_;  // scratch: tokens of one block
};

}  // namespace forerun
