// The sequences whose next items found no KV blocks; they wait until blocks are free again.
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

  // Adds `sequence`, which stays queued until take() or until it is dropped.
  void add(RoleSequence& sequence) {
    const int64_t free = pool_->free_blocks();
    free_blocks_ = waiting_.empty() ? free : std::min(free, free_blocks_);
    waiting_.push_back(&sequence);
    sequence.is_queued = true;
  }
  void forget(RoleSequence& sequence) { std::erase(waiting_, &sequence); }
  // Records that a sequence was closed, or that a closed one has freed its blocks.
  void note_closed() { has_closed_ = true; }
  // Returns whether sequences wait and memory has been freed since they began to.
  bool has_returned() const {
    return !waiting_.empty() && (has_closed_ || pool_->free_blocks() > free_blocks_);
  }
  // Inserts the sequences whose wait is over at the front of `ready`.
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
  int64_t free_blocks_ = 0;  // the minimum when one of them found none
  bool has_closed_ = false;  // a sequence was closed since take()
};

}  // namespace forerun
