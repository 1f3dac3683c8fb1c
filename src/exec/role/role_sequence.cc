#include "exec/role/role_sequence.h"

#include <algorithm>
#include <string>
#include <utility>

#include "base/status_macros.h"
#include "views/kv_index_blocks.h"

namespace forerun {

void RoleSequence::release_view() {
  for (std::vector<int32_t>* blocks : {&head_, &index_}) {
    for (const int32_t block : *blocks) pool_->release(block);
    blocks->clear();
  }
  chosen_ = {};
  indexed_tokens_ = 0;
}

void RoleSequence::take_layout(const WorkItem& item) {
  layout_ = {};
  const bool sees_it = item.view.kind != nullptr;
  const KvViewSpec& wanted = sees_it ? item.view : item.chooses_for;
  if (wanted.kind != nullptr) {
    if (view_spec_ != wanted) {
      release_view();
      view_ = wanted.kind->make(wanted.budget);
      view_spec_ = wanted;
    }
    layout_ = sees_it ? view_->layout(kv.prefix_length(), chosen_)
                      : view_->layout_by_verification(kv.prefix_length(), chosen_);
  }
  const int32_t end = kv.let_go_end();
  const bool is_here = !layout_.head_is_chosen && layout_.tail_block >= end &&
                       layout_.head_blocks <= kv.let_go_first();
  if (end > 0 && !is_here) layout_ = {.head_blocks = kv.let_go_first(), .tail_block = end};
  const bool skips = layout_.tail_block > layout_.head_blocks;
  if (item.role == Role::kDraft && skips && !layout_.head_is_chosen) {
    kv.let_go(layout_.head_blocks, layout_.tail_block);
  }
}

Status RoleSequence::reserve(const WorkItem& item, int32_t count) {
  take_layout(item);
  FORERUN_RETURN_IF_ERROR(kv.reserve(count));
  if (view_ == nullptr) return Status();
  const int32_t of_head = layout_.head_is_chosen ? layout_.head_blocks : 0;
  const int32_t of_index = layout_.chooses && view_->choice().by_index
                               ? kv_index_blocks(layout_.tail_block * kKvBlockTokens, head_dim_)
                               : 0;
  const auto missing_of = [](int32_t needed, const std::vector<int32_t>& blocks) {
    return std::max<int64_t>(0, needed - static_cast<int64_t>(blocks.size()));
  };
  const int64_t missing = missing_of(of_head, head_) + missing_of(of_index, index_);
  if (missing > pool_->free_blocks()) {
    return Status(StatusCode::kResourceExhausted,
                  std::string("KV cache is full: view ") + view_spec_.kind->name + " of " +
                      std::to_string(view_spec_.budget) + " tokens needs " +
                      std::to_string(missing) + " blocks of " + std::to_string(kKvBlockTokens) +
                      ", " + std::to_string(pool_->free_blocks()) + " of " +
                      std::to_string(pool_->total_blocks()) + " are free");
  }
  while (missing_of(of_head, head_) > 0) head_.push_back(pool_->allocate());
  while (missing_of(of_index, index_) > 0) index_.push_back(pool_->allocate());
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
    if (seen.choice.by_index) {
      seen.index = index_;
      seen.indexed_tokens = std::exchange(indexed_tokens_, seen.chosen_from);
    }
    chosen_ = {.tail_block = layout_.tail_block, .prefix_tokens = kv.prefix_length()};
  }
  const bool sees_all = item.view.kind == nullptr && kv.let_go_end() == 0;
  if (sees_all) {
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
