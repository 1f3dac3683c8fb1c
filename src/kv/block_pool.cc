#include "kv/block_pool.h"

#include <cassert>

namespace forerun {

BlockPool::BlockPool(int64_t num_blocks)
    : holders_(static_cast<size_t>(num_blocks), 0),
      kept_(static_cast<size_t>(num_blocks), 0),
      next_idle_(static_cast<size_t>(num_blocks) + 1, static_cast<int32_t>(num_blocks)),
      previous_idle_(next_idle_) {
  free_.reserve(holders_.size());
  for (auto block = static_cast<int32_t>(num_blocks) - 1; block >= 0; --block) {
    free_.push_back(block);
  }
}

void BlockPool::append_idle(int32_t block) {
  const size_t end = list_end();
  const int32_t last = previous_idle_[end];
  next_idle_[static_cast<size_t>(last)] = block;
  previous_idle_[static_cast<size_t>(block)] = last;
  next_idle_[static_cast<size_t>(block)] = static_cast<int32_t>(end);
  previous_idle_[end] = block;
  ++idle_;
}

void BlockPool::remove_idle(int32_t block) {
  const int32_t next = next_idle_[static_cast<size_t>(block)];
  const int32_t previous = previous_idle_[static_cast<size_t>(block)];
  next_idle_[static_cast<size_t>(previous)] = next;
  previous_idle_[static_cast<size_t>(next)] = previous;
  --idle_;
}

int32_t BlockPool::allocate() {
  int32_t block = -1;
  if (!free_.empty()) {
    block = free_.back();
    free_.pop_back();
  } else if (idle_ > 0) {
    block = next_idle_[list_end()];
    remove_idle(block);
    kept_[static_cast<size_t>(block)] = 0;
    if (on_forget_) on_forget_(block);
  } else {
    return -1;
  }
  holders_[static_cast<size_t>(block)] = 1;
  used_.fetch_add(1, std::memory_order_relaxed);
  return block;
}

void BlockPool::share(int32_t block) {
  if (holders_[static_cast<size_t>(block)]++ > 0) return;
  assert(kept_[static_cast<size_t>(block)] != 0);
  remove_idle(block);
  used_.fetch_add(1, std::memory_order_relaxed);
}

void BlockPool::release(int32_t block) {
  assert(holders_[static_cast<size_t>(block)] > 0);
  if (--holders_[static_cast<size_t>(block)] > 0) return;
  used_.fetch_sub(1, std::memory_order_relaxed);
  if (kept_[static_cast<size_t>(block)] != 0) {
    append_idle(block);
  } else {
    free_.push_back(block);
  }
}

}  // namespace forerun
