// A pool of the KV blocks of one role. It counts how many sequences hold each block, and knows
// which blocks are free and which are idle: held by no sequence, but kept for their contents until
// memory is needed.
//
// Only the thread that runs the role's Steps may use a pool; any thread may call used_blocks().
// Only the constructor allocates memory.
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
  // Returns the number of blocks that some sequence holds.
  int64_t used_blocks() const { return used_.load(std::memory_order_relaxed); }
  // Returns the number of blocks that allocate() can still give, idle ones included.
  int64_t free_blocks() const { return total_blocks() - used_blocks(); }
  int64_t idle_blocks() const { return idle_; }

  // Returns a block with one holder, or -1 if none is left. Prefers the free block that was freed
  // last. If none is free, takes the block that has been idle longest, after passing it to
  // `on_forget`.
  int32_t allocate();
  // Adds a holder to a held or idle block.
  void share(int32_t block);
  // Removes a holder. A block without holders becomes free, or idle if keep() was called for it.
  void release(int32_t block);
  int32_t holders(int32_t block) const { return holders_[static_cast<size_t>(block)]; }

  // Makes this held block become idle rather than free when its last holder releases it; this lasts
  // until the pool forgets the block.
  void keep(int32_t block) { kept_[static_cast<size_t>(block)] = 1; }
  // Sets the function that allocate() calls with an idle block before it gives the block to another
  // sequence.
  void on_forget(std::function<void(int32_t block)> callback) { on_forget_ = std::move(callback); }

 private:
  // Idle blocks form a doubly linked list in the order in which they became idle, with a sentinel
  // behind the last block.
  size_t list_end() const { return holders_.size(); }
  void append_idle(int32_t block);
  void remove_idle(int32_t block);

  std::vector<int32_t> holders_;
  std::vector<int32_t> free_;
  std::vector<uint8_t> kept_;
  std::vector<int32_t> next_idle_, previous_idle_;  // one entry more than blocks
  int64_t idle_ = 0;
  std::function<void(int32_t)> on_forget_;
  std::atomic<int64_t> used_{0};
};

}  // namespace forerun
