#include "engine/admission.h"

#include <utility>

#include "step/step.h"

namespace forerun {
namespace {

constexpr auto kPage = static_cast<size_t>(kKvBlockTokens);

int64_t blocks_of(size_t tokens) { return static_cast<int64_t>((tokens + kPage - 1) / kPage); }

// A full page is named by its tokens and all before them. That two texts might have one name
// matters to nobody: the count would be off by some blocks.
uint64_t page_name(uint64_t before, std::span<const TokenId> page) {
  uint64_t hash = before + 0x9e3779b97f4a7c15u;
  for (const TokenId token : page) {
    hash = (hash ^ static_cast<uint64_t>(token)) * 0xbf58476d1ce4e5b9u;
    hash ^= hash >> 29;
  }
  return hash;
}

}  // namespace

int64_t Admission::blocks_to_take(std::span<const TokenId> text, bool shares) const {
  int64_t blocks = blocks_of(text.size());
  if (!shares) return blocks;
  uint64_t name = 0;
  for (size_t begin = 0; begin + kPage <= text.size(); begin += kPage) {
    name = page_name(name, text.subspan(begin, kPage));
    if (!holders_.contains(name)) break;
    --blocks;
  }
  return blocks;
}

bool Admission::has_room(std::span<const TokenId> text, bool shares, int64_t running,
                         int64_t view_blocks) const {
  if (running == 0) return true;
  int64_t blocks = -1;
  for (const Role role : {Role::kTarget, Role::kDraft}) {
    const KvUsage usage = executor_->kv_usage(role);
    if (usage.total_blocks == 0) continue;
    const int64_t free =
        usage.total_blocks - usage.used_blocks - promised_[static_cast<size_t>(role)];
    if (free < running + 1) return false;
    if (blocks < 0) blocks = blocks_to_take(text, shares);
    if (free < blocks + view_blocks + 1 + running) return false;
  }
  return true;
}

Admission::Promise Admission::admit(std::span<const TokenId> text, bool shares,
                                    int64_t view_blocks) {
  Promise promise;
  promise.blocks.fill(blocks_to_take(text, shares) + view_blocks);
  for (size_t role = 0; role < promised_.size(); ++role) promised_[role] += promise.blocks[role];
  if (!shares) return promise;
  uint64_t name = 0;
  for (size_t begin = 0; begin + kPage <= text.size(); begin += kPage) {
    name = page_name(name, text.subspan(begin, kPage));
    ++holders_[name];
    promise.shared_pages.push_back(name);
  }
  return promise;
}

void Admission::note_read(Promise& promise, Role role) {
  const auto index = static_cast<size_t>(role);
  promised_[index] -= std::exchange(promise.blocks[index], 0);
}

void Admission::leave(Promise& promise) {
  note_read(promise, Role::kTarget);
  note_read(promise, Role::kDraft);
  for (const uint64_t name : promise.shared_pages) {
    const auto found = holders_.find(name);
    if (--found->second == 0) holders_.erase(found);
  }
  promise.shared_pages.clear();
}

}  // namespace forerun
