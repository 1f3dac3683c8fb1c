#include "exec/role_sequence.h"

#include <string>

namespace forerun {

void RoleSequence::release_head() {
  for (const int32_t block : head_) pool_->release(block);
  head_.clear();
  chosen_for_ = 0;
}

Status RoleSequence::reserve(const KvViewSpec& wanted, int32_t count) {
  FORERUN_RETURN_IF_ERROR(kv.reserve(count));
  if (wanted.kind == nullptr) return Status();
  if (view_spec_ != wanted) {
    release_head();
    view_ = wanted.kind->make(wanted.budget);
    view_spec_ = wanted;
  }
  layout_ = view_->layout(kv.prefix_length(), chosen_for_);
  const auto needed = static_cast<size_t>(layout_.head_is_chosen ? layout_.head_blocks : 0);
  const int64_t missing = static_cast<int64_t>(needed) - static_cast<int64_t>(head_.size());
  if (missing > pool_->free_blocks()) {
    return Status(StatusCode::kResourceExhausted,
                  std::string("KV cache is full: view ") + wanted.kind->name + " of " +
                      std::to_string(wanted.budget) + " tokens needs " + std::to_string(missing) +
                      " blocks of " + std::to_string(kKvBlockTokens) + ", " +
                      std::to_string(pool_->free_blocks()) + " of " +
                      std::to_string(pool_->total_blocks()) + " are free");
  }
  while (head_.size() < needed) head_.push_back(pool_->allocate());
  return Status();
}

SeenKv RoleSequence::see(const KvViewSpec& wanted) {
  const std::span<const int32_t> blocks = kv.block_table();
  const int32_t skipped = wanted.kind == nullptr ? 0 : layout_.tail_block - layout_.head_blocks;
  SeenKv seen{.block_table = blocks.data(), .skipped_tokens = skipped * kKvBlockTokens};
  if (skipped == 0) return seen;
  const std::span<const int32_t> head =
      layout_.head_is_chosen ? std::span<const int32_t>(head_)
                             : blocks.first(static_cast<size_t>(layout_.head_blocks));
  view_blocks_.assign(head.begin(), head.end());
  view_blocks_.insert(view_blocks_.end(), blocks.begin() + layout_.tail_block, blocks.end());
  seen.block_table = view_blocks_.data();
  if (layout_.head_is_chosen && layout_.tail_block != chosen_for_) {
    seen.choice = view_->choice();
    seen.chosen_from = layout_.tail_block * kKvBlockTokens;
    seen.head = head_;
    chosen_for_ = layout_.tail_block;
  }
  return seen;
}

}  // namespace forerun
