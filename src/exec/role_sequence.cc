#include "exec/role_sequence.h"

#include <string>

namespace forerun {

void RoleSequence::release_head() {
  for (const int32_t block : head_) pool_->release(block);
  head_.clear();
  chosen_ = {};
}

Status RoleSequence::reserve(const WorkItem& item, int32_t count) {
  FORERUN_RETURN_IF_ERROR(kv.reserve(count));
  layout_ = {};
  const bool sees_it = item.view.kind != nullptr;
  const KvViewSpec& wanted = sees_it ? item.view : item.chooses_for;
  if (wanted.kind == nullptr) return Status();
  if (view_spec_ != wanted) {
    release_head();
    view_ = wanted.kind->make(wanted.budget);
    view_spec_ = wanted;
  }
  layout_ = sees_it ? view_->layout(kv.prefix_length(), chosen_)
                    : view_->layout_by_verification(kv.prefix_length(), chosen_);
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

SeenKv RoleSequence::see(const WorkItem& item) {
  const std::span<const int32_t> blocks = kv.block_table();
  SeenKv seen{.block_table = blocks.data()};
  const int32_t skipped = layout_.tail_block - layout_.head_blocks;
  if (skipped == 0) return seen;
  if (layout_.chooses) {
    seen.choice = view_->choice();
    seen.chosen_from = layout_.tail_block * kKvBlockTokens;
    seen.head = head_;
    chosen_ = {.tail_block = layout_.tail_block, .prefix_tokens = kv.prefix_length()};
  }
  if (item.view.kind == nullptr) {
    seen.choice.by = layout_.chooses ? KvObservers::kOwnRows : KvObservers::kNobody;
    return seen;
  }
  seen.skipped_tokens = skipped * kKvBlockTokens;
  const std::span<const int32_t> head =
      layout_.head_is_chosen ? std::span<const int32_t>(head_)
                             : blocks.first(static_cast<size_t>(layout_.head_blocks));
  view_blocks_.assign(head.begin(), head.end());
  view_blocks_.insert(view_blocks_.end(), blocks.begin() + layout_.tail_block, blocks.end());
  seen.block_table = view_blocks_.data();
  return seen;
}

}  // namespace forerun
