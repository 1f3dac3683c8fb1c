#include "kv/block_pool.h"

#include <cassert>

namespace forerun {

BlockPool::BlockPool(int64_t num_blocks) : references_(static_cast<size_t>(num_blocks), 0) {
  free_.reserve(references_.size());
  for (int64_t block = num_blocks - 1; block >= 0; --block) {
    free_.push_back(static_cast<int32_t>(block));
  }
}

int32_t BlockPool::allocate() {
  if (free_.empty()) return -1;
  const int32_t block = free_.back();
  free_.pop_back();
  references_[static_cast<size_t>(block)] = 1;
  used_.fetch_add(1, std::memory_order_relaxed);
  return block;
}

void BlockPool::release(int32_t block) {
  int32_t& references = references_[static_cast<size_t>(block)];
  assert(references > 0);
  if (--references > 0) return;
  free_.push_back(block);
  used_.fetch_sub(1, std::memory_order_relaxed);
}

}  // namespace forerun
