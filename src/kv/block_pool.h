// The KV blocks of one role's storage: which are free, how many sequences hold each, and which are
// idle: held by nobody, but kept for what they contain until memory is needed.
//
// Used by one thread (the one that runs the role's Steps), except used_blocks(), which any thread
// may read. Allocates memory in its constructor only.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <vector>

namespace forerun {

class BlockPool {
 public:
  explicit BlockPool(int64_t num_blocks);

  int64_t total_blocks() const { return static_cast<int64_t>(holders_.size()); }
  // Held by somebody.
  int64_t used_blocks() const { return used_.load(std::memory_order_relaxed); }
  // What allocate() can give, idle blocks included.
  int64_t free_blocks() const { return total_blocks() - used_blocks(); }
  int64_t idle_blocks() const { return idle_; }

  // A block, now held once; -1 where none is left. Of the free ones the block freed last; where
  // there is none, the block that has been idle longest, which is told to `on_forget`.
  int32_t allocate();
  // One more holder of a held or an idle block.
  void share(int32_t block);
  // One holder less. Where nobody is left, the block is free, or idle if it is to be kept.
  void release(int32_t block);
  int32_t holders(int32_t block) const { return holders_[static_cast<size_t>(block)]; }

  // From now on, until it is forgotten, this held block becomes idle rather than free.
  void keep(int32_t block) { kept_[static_cast<size_t>(block)] = 1; }
  // Called with an idle block before it is given to somebody else.
  void on_forget(std::function<void(int32_t block)> callback) { on_forget_ = std::move(callback); }

 private:
  // Idle blocks form a list, the one idle longest first; its ends hang on a cell behind the blocks.
  size_t list_end() const { return holders_.size(); }
  void append_idle(int32_t block);
  void remove_idle(int32_t block);

  std::vector<int32_t> holders_;
  std::vector<int32_t> free_;
  std::vector<uint8_t> kept_;
  std::vector<int32_t> next_idle_, previous_idle_;  // one more than blocks
  int64_t idle_ = 0;
  std::function<void(int32_t)> on_forget_;
  std::atomic<int64_t> used_{0};
};

}  // namespace forerun
