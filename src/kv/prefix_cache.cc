#include "kv/prefix_cache.h"

#include <algorithm>
#include <cassert>

namespace forerun {

PrefixCache::PrefixCache(BlockPool* pool)
    : pool_(pool), hash_of_block_(static_cast<size_t>(pool->total_blocks())) {
  pool_->on_forget(
      [this](int32_t block) { entries_.erase(hash_of_block_[static_cast<size_t>(block)]); });
}

bool PrefixCache::Entry::holds(uint64_t text_before, std::span<const TokenId> text) const {
  return before == text_before && std::equal(tokens.begin(), tokens.end(), text.begin());
}

uint64_t PrefixCache::hash_of(uint64_t before, std::span<const TokenId> tokens) {
  uint64_t hash = before + 0x9e3779b97f4a7c15ull;
  for (const TokenId token : tokens) {
    hash = (hash ^ static_cast<uint32_t>(token)) * 0xff51afd7ed558ccdull;
    hash ^= hash >> 32;
  }
  return hash;
}

PrefixCache::Page PrefixCache::find(uint64_t before, std::span<const TokenId> tokens) const {
  assert(tokens.size() == kKvBlockTokens);
  const auto found = entries_.find(hash_of(before, tokens));
  return found != entries_.end() && found->second.holds(before, tokens) ? found->second.page
                                                                        : Page{};
}

PrefixCache::Page PrefixCache::remember(uint64_t before, std::span<const TokenId> tokens,
                                        int32_t block) {
  assert(tokens.size() == kKvBlockTokens && pool_->holders(block) > 0);
  const uint64_t hash = hash_of(before, tokens);
  const auto [found, is_new] = entries_.try_emplace(hash);
  Entry& entry = found->second;
  if (!is_new) return entry.holds(before, tokens) ? entry.page : Page{};
  entry.page = {block, next_text_++};
  entry.before = before;
  std::copy(tokens.begin(), tokens.end(), entry.tokens.begin());
  hash_of_block_[static_cast<size_t>(block)] = hash;
  pool_->keep(block);
  return entry.page;
}

}  // namespace forerun
