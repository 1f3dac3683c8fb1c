// The KV blocks of one role's storage: which are free, and how many sequences hold each.
//
// Used by one thread (the one that runs the role's Steps), except used_blocks(), which any thread
// may read. Allocates memory in its constructor only.
#pragma once

#include <atomic>
#include <cstdint>
#include <vector>

namespace forerun {

class BlockPool {
 public:
  explicit BlockPool(int64_t num_blocks);

  int64_t total_blocks() const { return static_cast<int64_t>(references_.size()); }
  int64_t used_blocks() const { return used_.load(std::memory_order_relaxed); }
  int64_t free_blocks() const { return total_blocks() - used_blocks(); }

  // A block that nobody holds, now held once; -1 where none is left. The block freed last is handed
  // out first.
  int32_t allocate();
  // One more holder of a held block.
  void share(int32_t block) { ++references_[static_cast<size_t>(block)]; }
  // One holder less; the block is free when nobody holds it.
  void release(int32_t block);
  int32_t holders(int32_t block) const { return references_[static_cast<size_t>(block)]; }

 private:
  std::vector<int32_t> references_;
  std::vector<int32_t> free_;
  std::atomic<int64_t> used_{0};
};

}  // namespace forerun
