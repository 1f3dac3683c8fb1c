#include "kv/sequence_kv.h"

#include <algorithm>
#include <cassert>
#include <utility>

namespace forerun {
namespace {

// Ids of prefixes (PrefixCache::Page) count up from 0 and from kFirstPrefixSalt and stay below
// 2^40 of either.
constexpr int kFirstTokenShift = 40;

int32_t blocks_for(int32_t tokens) { return (tokens + kKvBlockTokens - 1) / kKvBlockTokens; }

}  // namespace

SequenceKv::SequenceKv(BlockPool* pool, int32_t max_tokens, PrefixCache* cache, uint64_t salt)
    : pool_(pool), cache_(cache), published_text_(salt) {
  blocks_.reserve(static_cast<size_t>(blocks_for(max_tokens)));
}

SequenceKv::~SequenceKv() { release_all(); }

void SequenceKv::release_all() {
  // Releases blocks from the end of the sequence, so that the pool forgets later blocks before
  // earlier ones.
  for (size_t block_idx = blocks_.size(); block_idx-- > 0;) {
    if (blocks_[block_idx] >= 0) pool_->release(blocks_[block_idx]);
  }
  blocks_.clear();
}

void SequenceKv::skip_first(TokenId token) {
  assert(end_position() == 0 && tree_.empty() && pending_.empty());
  first_position_ = 1;
  published_text_ += (static_cast<uint64_t>(token) + 1) << kFirstTokenShift;
}

void SequenceKv::restart_at(int32_t position) {
  assert(tree_.empty() && pending_.empty());
  release_all();
  prefix_tokens_.clear();
  prefix_length_ = let_go_ = let_go_end_ = 0;
  first_position_ = position;
  stop_sharing();
}

Status SequenceKv::reserve(int32_t rows) {
  const int32_t needed = blocks_for(length() + rows);
  const auto held = static_cast<int32_t>(blocks_.size());
  if (needed - held > pool_->free_blocks()) {
    return Status(StatusCode::kResourceExhausted,
                  "KV cache is full: " + std::to_string(length() + rows) + " tokens need " +
                      std::to_string(needed - let_go_) + " blocks of " +
                      std::to_string(kKvBlockTokens) + ", the sequence holds " +
                      std::to_string(held - let_go_) + ", " + std::to_string(pool_->free_blocks()) +
                      " of " + std::to_string(pool_->total_blocks()) + " are free");
  }
  for (int32_t block = held; block < needed; ++block) blocks_.push_back(pool_->allocate());
  return {};
}

int32_t SequenceKv::append_prefix(TokenId token) {
  assert(tree_.empty() && pending_.empty());
  assert(blocks_for(prefix_length_ + 1) <= static_cast<int32_t>(blocks_.size()));
  prefix_tokens_.push_back(token);
  return prefix_length_++;
}

int32_t SequenceKv::append_tree(NodeId node, int32_t parent_idx, TokenId token, bool sparse) {
  assert(pending_.empty() && index_.find(node) < 0);
  assert(blocks_for(length() + 1) <= static_cast<int32_t>(blocks_.size()));
  const auto tree_idx = static_cast<int32_t>(tree_.size());
  const int32_t position =
      parent_idx < 0 ? end_position() : tree_[static_cast<size_t>(parent_idx)].position + 1;
  tree_.push_back({node, parent_idx, position, token, prefix_length_ + tree_idx, sparse});
  index_.insert(node, tree_idx);
  return tree_idx;
}

void SequenceKv::truncate(int32_t prefix_length, int32_t tree_size) {
  assert(prefix_length <= prefix_length_ && tree_size <= static_cast<int32_t>(tree_.size()));
  prefix_tokens_.resize(static_cast<size_t>(prefix_length));
  prefix_length_ = prefix_length;
  tree_.resize(static_cast<size_t>(tree_size));
  rebuild_index();
}

void SequenceKv::rebuild_index() {
  index_.clear();
  for (size_t tree_idx = 0; tree_idx < tree_.size(); ++tree_idx) {
    index_.insert(tree_[tree_idx].node, static_cast<int32_t>(tree_idx));
  }
}

Status SequenceKv::commit(std::span<const NodeId> nodes) {
  if (nodes.empty()) return {};
  int32_t last = -1;
  for (NodeId node : nodes) {
    const int32_t tree_idx = index_.find(node);
    if (tree_idx < 0 || tree_[static_cast<size_t>(tree_idx)].parent_idx != last) {
      return Status(StatusCode::kInternal,
                    "commit: node " + std::to_string(node) +
                        (tree_idx < 0 ? " has no KV; accepted: nodes of the tree region"
                                      : " does not continue the committed path"));
    }
    last = tree_idx;
  }
  for (NodeId node : nodes) {
    const TreeRow& row = tree_[static_cast<size_t>(index_.find(node))];
    if (row.sparse) stop_sharing();
    pending_.push_back({row.stored_slot, prefix_length_++});
    prefix_tokens_.push_back(row.token);
  }
  // Descendants of the last node stay, now as children of the prefix. Parents come first.
  new_index_.assign(tree_.size(), -1);
  size_t kept = 0;
  for (size_t tree_idx = static_cast<size_t>(last) + 1; tree_idx < tree_.size(); ++tree_idx) {
    TreeRow row = tree_[tree_idx];
    const bool child_of_last = row.parent_idx == last;
    if (!child_of_last &&
        (row.parent_idx < 0 || new_index_[static_cast<size_t>(row.parent_idx)] < 0)) {
      continue;
    }
    row.parent_idx = child_of_last ? -1 : new_index_[static_cast<size_t>(row.parent_idx)];
    new_index_[tree_idx] = static_cast<int32_t>(kept);
    tree_[kept++] = row;
  }
  tree_.resize(kept);
  rebuild_index();
  return {};
}

Status SequenceKv::keep(std::span<const NodeId> nodes) {
  new_index_.assign(tree_.size(), -1);
  for (NodeId node : nodes) {
    const int32_t tree_idx = index_.find(node);
    if (tree_idx < 0) {
      return Status(StatusCode::kInternal, "keep: node " + std::to_string(node) +
                                               " has no KV; accepted: nodes of the tree region");
    }
    new_index_[static_cast<size_t>(tree_idx)] = 0;
  }
  for (size_t tree_idx = 0; tree_idx < tree_.size(); ++tree_idx) {
    const TreeRow& row = tree_[tree_idx];
    if (new_index_[tree_idx] < 0 || row.parent_idx < 0) continue;
    if (new_index_[static_cast<size_t>(row.parent_idx)] < 0) {
      return Status(StatusCode::kInternal,
                    "keep: node " + std::to_string(row.node) + " is kept without its parent " +
                        std::to_string(tree_[static_cast<size_t>(row.parent_idx)].node));
    }
  }
  size_t kept = 0;
  for (size_t tree_idx = 0; tree_idx < tree_.size(); ++tree_idx) {
    if (new_index_[tree_idx] < 0) continue;
    TreeRow row = tree_[tree_idx];
    if (row.parent_idx >= 0) row.parent_idx = new_index_[static_cast<size_t>(row.parent_idx)];
    new_index_[tree_idx] = static_cast<int32_t>(kept);
    tree_[kept++] = row;
  }
  if (kept == tree_.size()) return {};
  tree_.resize(kept);
  rebuild_index();
  return {};
}

void SequenceKv::take_moves(std::vector<KvMove>& moves) {
  moves.clear();
  for (const KvMove& move : pending_) {
    if (move.from_slot != move.to_slot) moves.push_back(move);
  }
  pending_.clear();
  for (size_t tree_idx = 0; tree_idx < tree_.size(); ++tree_idx) {
    const int32_t slot = prefix_length_ + static_cast<int32_t>(tree_idx);
    if (tree_[tree_idx].stored_slot == slot) continue;
    moves.push_back({tree_[tree_idx].stored_slot, slot});
    tree_[tree_idx].stored_slot = slot;
  }
}

void SequenceKv::release_unused() {
  const auto needed = static_cast<size_t>(blocks_for(length()));
  while (blocks_.size() > needed) {
    pool_->release(blocks_.back());
    blocks_.pop_back();
  }
}

void SequenceKv::let_go(int32_t first, int32_t end) {
  assert(end <= prefix_length_ / kKvBlockTokens);
  for (int32_t block_idx = std::max(first, let_go_end_); block_idx < end; ++block_idx) {
    pool_->release(std::exchange(blocks_[static_cast<size_t>(block_idx)], -1));
    ++let_go_;
  }
  if (end <= std::max(first, let_go_end_)) return;
  let_go_end_ = end;
  stop_sharing();
}

int32_t SequenceKv::adopt(std::span<const TokenId> tokens) {
  assert(can_adopt());
  int32_t adopted = 0;
  while (tokens.size() >= kKvBlockTokens) {
    const PrefixCache::Page page = cache_->find(published_text_, tokens.first(kKvBlockTokens));
    if (page.block < 0) break;
    pool_->share(page.block);
    blocks_.push_back(page.block);
    published_text_ = page.text;
    prefix_tokens_.insert(prefix_tokens_.end(), tokens.begin(), tokens.begin() + kKvBlockTokens);
    published_ += kKvBlockTokens;
    tokens = tokens.subspan(kKvBlockTokens);
    adopted += kKvBlockTokens;
  }
  prefix_length_ += adopted;
  return adopted;
}

void SequenceKv::publish() {
  assert(pending_.empty());
  while (cache_ != nullptr && prefix_tokens_.size() - published_ >= kKvBlockTokens) {
    int32_t& block = blocks_[published_ / kKvBlockTokens];
    const PrefixCache::Page page = cache_->remember(
        published_text_, std::span(prefix_tokens_).subspan(published_, kKvBlockTokens), block);
    if (page.block < 0) {
      cache_ = nullptr;
      return;
    }
    if (page.block != block) {
      pool_->share(page.block);
      pool_->release(block);
      block = page.block;
    }
    published_text_ = page.text;
    published_ += kKvBlockTokens;
  }
}

}  // namespace forerun
