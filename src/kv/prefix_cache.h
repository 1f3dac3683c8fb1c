// A cache of full prefix blocks, by which sequences with a common beginning share KV. A block is
// found by its tokens and all tokens before them. Every sequence computes the same bits of KV for
// the same prefix, so sharing a block changes no token.
//
// Only the thread that uses the pool may use the cache. remember() allocates memory.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <unordered_map>
#include <vector>

#include "kv/block_pool.h"
#include "step/step.h"
#include "step/types.h"

namespace forerun {

class PrefixCache {
 public:
  // `pool` must outlive the cache, which sets the pool's on_forget().
  explicit PrefixCache(BlockPool* pool);
  PrefixCache(const PrefixCache&) = delete;
  PrefixCache& operator=(const PrefixCache&) = delete;

  // A block and the id of the prefix up to the end of the block. Ids are never reused: 0 is the
  // empty prefix, and each id from kFirstPrefixSalt (step/work.h) on is an empty prefix of its own.
  struct Page {
    int32_t block = -1;
    uint64_t text = 0;
  };
  // Returns the page that holds these kKvBlockTokens tokens behind the prefix `before`; its block
  // is -1 if there is none. The caller must share() the block before it allocates another one.
  Page find(uint64_t before, std::span<const TokenId> tokens) const;
  // Makes `block`, which is held and full, the page of these tokens, so that it becomes idle rather
  // than free when no sequence holds it. Returns the older page if one exists already. The returned
  // block is -1 if the cache cannot remember this prefix.
  Page remember(uint64_t before, std::span<const TokenId> tokens, int32_t block);

  int64_t pages() const { return static_cast<int64_t>(entries_.size()); }

 private:
  struct Entry {
    Page page;
    uint64_t before = 0;
    std::array<TokenId, kKvBlockTokens> tokens{};

    bool holds(uint64_t text_before, std::span<const TokenId> text) const;
  };
  static uint64_t hash_of(uint64_t before, std::span<const TokenId> tokens);

  BlockPool* pool_;
  std::unordered_map<uint64_t, Entry> entries_;  // by hash; on a collision the first entry stays
  std::vector<uint64_t> hash_of_block_;
  uint64_t next_text_ = 1;
};

}  // namespace forerun
