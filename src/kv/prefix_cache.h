// Which blocks of a role's storage hold which text, so that sequences with a common beginning share
// its KV: full prefix blocks, found by their tokens and all tokens before them. KV has the same
// bits whichever sequence wrote it, so sharing a block changes no token.
//
// Used by the thread that uses the pool. Allocates when a block is remembered.
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
  // `pool` must outlive the object, which takes its on_forget().
  explicit PrefixCache(BlockPool* pool);
  PrefixCache(const PrefixCache&) = delete;
  PrefixCache& operator=(const PrefixCache&) = delete;

  // A block and the number of the text up to its end. Numbers are never reused: 0 is the empty
  // text, and each number from kFirstPrefixSalt (step/work.h) on is an empty text of its own.
  struct Page {
    int32_t block = -1;
    uint64_t text = 0;
  };
  // The page that holds these kKvBlockTokens tokens behind the text `before`; block -1: none does.
  // The caller must share() its block before anything is allocated.
  Page find(uint64_t before, std::span<const TokenId> tokens) const;
  // Makes `block`, which is held and full, the page of these tokens; it becomes idle rather than
  // free when no sequence holds it. Where such a page exists already, returns that one. Block -1:
  // this text cannot be remembered.
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
  std::unordered_map<uint64_t, Entry> entries_;  // by hash; on a collision the first is kept
  std::vector<uint64_t> hash_of_block_;
  uint64_t next_text_ = 1;
};

}  // namespace forerun
