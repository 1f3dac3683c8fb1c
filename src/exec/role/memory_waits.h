// Sequences whose next items found no KV blocks, until blocks have come back.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "exec/role/role_sequence.h"
#include "kv/block_pool.h"

namespace forerun {

class MemoryWaits {
 public:
  explicit MemoryWaits(const BlockPool* pool) : pool_(pool) {}

  // `sequence` stays queued until it is taken or forgotten.
  void add(RoleSequence& sequence) {
    const int64_t free = pool_->free_blocks();
    free_blocks_ = waiting_.empty() ? free : std::min(free, free_blocks_);
    waiting_.push_back(&sequence);
    sequence.is_queued = true;
  }
  void forget(RoleSequence& sequence) { std::erase(waiting_, &sequence); }
  // A sequence has been closed, or a closed one has given back its blocks.
  void note_closed() { has_closed_ = true; }
  // Whether sequences wait, and memory has come back since they began to.
  bool has_returned() const {
    return !waiting_.empty() && (has_closed_ || pool_->free_blocks() > free_blocks_);
  }
  // Puts the sequences in front of `ready` where their wait is over.
  void take(std::vector<RoleSequence*>& ready) {
    if (has_returned()) {
      ready.insert(ready.begin(), waiting_.begin(), waiting_.end());
      waiting_.clear();
    }
    has_closed_ = false;
  }

 private:
  const BlockPool* const pool_;
  std::vector<RoleSequence*> waiting_;
  int64_t free_blocks_ = 0;  // the fewest that there were when one of them found none
  bool has_closed_ = false;  // a sequence was closed since take()
};

}  // namespace forerun
