#include "kv/prefix_cache.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <random>
#include <vector>

#include "kv/sequence_kv.h"

namespace forerun {
namespace {

constexpr auto kBlock = static_cast<size_t>(kKvBlockTokens);
using Tokens = std::vector<TokenId>;

// A storage that keeps in each cell a hash of all tokens up to its own, since KV depends on all of
// them.
struct Storage {
  explicit Storage(int64_t blocks)
      : pool(blocks), cache(&pool), cells(static_cast<size_t>(blocks) * kBlock) {}
  BlockPool pool;
  PrefixCache cache;
  std::vector<uint64_t> cells;
};

class Text {
 public:
  explicit Text(Storage* storage) : kv(&storage->pool, 4096, &storage->cache), storage_(storage) {}

  // Adopts as many of `tokens` as it can and computes the others. Returns false if blocks run out.
  bool append(const Tokens& tokens) {
    size_t done = 0;
    if (kv.can_adopt()) done = static_cast<size_t>(kv.adopt(tokens));
    adopted += done;
    tokens_.insert(tokens_.end(), tokens.begin(), tokens.begin() + static_cast<ptrdiff_t>(done));
    if (!kv.reserve(static_cast<int32_t>(tokens.size() - done)).ok()) return false;
    for (size_t idx = done; idx < tokens.size(); ++idx) {
      tokens_.push_back(tokens[idx]);
      cell(kv.append_prefix(tokens[idx])) = hash_up_to(tokens_.size());
    }
    kv.publish();
    return true;
  }
  // Appends the tokens as two branches of the tree region, and commits the second one.
  bool append_by_tree(const Tokens& tokens, NodeId& next_node) {
    const auto count = static_cast<int32_t>(tokens.size());
    if (!kv.reserve(2 * count).ok()) return false;
    std::vector<NodeId> path;
    for (const bool right : {false, true}) {
      int32_t parent = -1;
      for (size_t idx = 0; idx < tokens.size(); ++idx) {
        parent = kv.append_tree(next_node, parent, tokens[idx] + (right ? 0 : 1));
        if (right) tokens_.push_back(tokens[idx]);
        cell(kv.slot_of(parent)) = right ? hash_up_to(tokens_.size()) : 1;
        if (right) path.push_back(next_node);
        ++next_node;
      }
    }
    EXPECT_TRUE(kv.commit(path).ok());
    std::vector<KvMove> moves;
    kv.take_moves(moves);
    for (const KvMove& move : moves) cell(move.to_slot) = cell(move.from_slot);
    kv.publish();
    kv.release_unused();
    return true;
  }
  void check() {
    ASSERT_EQ(kv.prefix_length(), static_cast<int32_t>(tokens_.size()));
    for (size_t idx = 0; idx < tokens_.size(); ++idx) {
      ASSERT_EQ(cell(static_cast<int32_t>(idx)), hash_up_to(idx + 1)) << idx;
    }
  }

  SequenceKv kv;
  size_t adopted = 0;

 private:
  uint64_t& cell(int32_t slot) {
    const int32_t block = kv.block_table()[static_cast<size_t>(slot / kKvBlockTokens)];
    return storage_
        ->cells[static_cast<size_t>(block) * kBlock + static_cast<size_t>(slot % kKvBlockTokens)];
  }
  uint64_t hash_up_to(size_t count) const {
    uint64_t hash = 7;
    for (size_t idx = 0; idx < count; ++idx) {
      hash = hash * 0x100000001b3ull + static_cast<uint64_t>(tokens_[idx]) + 1;
    }
    return hash;
  }

  Storage* storage_;
  Tokens tokens_;
};

Tokens count_from(TokenId first, size_t count) {
  Tokens tokens(count);
  for (size_t idx = 0; idx < count; ++idx) tokens[idx] = first + static_cast<TokenId>(idx);
  return tokens;
}

TEST(PrefixCache, FullBlocksOfACommonBeginningAreTaken) {
  Storage storage(8);
  Text first(&storage);
  ASSERT_TRUE(first.append(count_from(0, 150)));
  Text second(&storage);
  Tokens tokens = count_from(0, 150);
  tokens[140] = 7;
  ASSERT_TRUE(second.append(tokens));
  EXPECT_EQ(second.adopted, 128u);
  EXPECT_EQ(storage.pool.used_blocks(), 4);
  // The same tokens behind another prefix are another page.
  Text third(&storage);
  tokens = count_from(1, 64);
  const Tokens behind = count_from(64, 64);
  tokens.insert(tokens.end(), behind.begin(), behind.end());
  ASSERT_TRUE(third.append(tokens));
  EXPECT_EQ(third.adopted, 0u);
  for (Text* text : {&first, &second, &third}) text->check();
}

TEST(PrefixCache, EndedTextsAreKeptUntilMemoryIsNeededTheOldestEndGoesFirst) {
  Storage storage(4);
  for (const TokenId first : {0, 1000}) {
    Text text(&storage);
    ASSERT_TRUE(text.append(count_from(first, 128)));
  }
  EXPECT_EQ(storage.pool.used_blocks(), 0);
  EXPECT_EQ(storage.pool.idle_blocks(), 4);
  {
    Text other(&storage);
    ASSERT_TRUE(other.append(count_from(5000, 10)));  // takes the first sequence's last block
    Text first(&storage);
    ASSERT_TRUE(first.append(count_from(0, 65)));
    EXPECT_EQ(first.adopted, 64u);  // its 65th token takes the second sequence's last block
    EXPECT_EQ(storage.pool.idle_blocks(), 1);
    Text second(&storage);
    ASSERT_TRUE(second.append(count_from(1000, 64)));
    EXPECT_EQ(second.adopted, 64u);
    EXPECT_EQ(storage.pool.free_blocks(), 0);
    EXPECT_FALSE(other.append(count_from(0, 64)));
    other.check();
  }
  EXPECT_EQ(storage.pool.used_blocks(), 0);
  EXPECT_EQ(storage.cache.pages(), storage.pool.idle_blocks());
}

// Two sequences that compute the same block at the same time end up sharing one copy.
TEST(PrefixCache, TwinsBecomeOne) {
  Storage storage(8);
  Text first(&storage);
  Text second(&storage);
  NodeId node = 0;
  ASSERT_TRUE(first.append(count_from(0, 60)));
  ASSERT_TRUE(second.append(count_from(0, 60)));
  EXPECT_EQ(storage.pool.used_blocks(), 2);
  ASSERT_TRUE(first.append(count_from(60, 10)));
  ASSERT_TRUE(second.append_by_tree(count_from(60, 10), node));
  EXPECT_EQ(first.kv.block_table()[0], second.kv.block_table()[0]);
  EXPECT_EQ(storage.pool.used_blocks(), 3);
  first.check();
  second.check();
}

// Sequences with common beginnings come, grow and go over a small pool; each always sees its own
// KV.
TEST(PrefixCache, RandomTextsSeeTheirOwnTokens) {
  size_t adopted = 0;
  int64_t refused = 0;
  for (uint32_t seed = 0; seed < 12; ++seed) {
    std::mt19937 rng(seed);
    Storage storage(24);
    std::vector<std::unique_ptr<Text>> live;
    NodeId node = 0;
    for (int round = 0; round < 200; ++round) {
      if (live.size() < 2 || (live.size() < 6 && rng() % 4 == 0)) {
        live.push_back(std::make_unique<Text>(&storage));
        Tokens tokens = count_from(static_cast<TokenId>(1000 * (rng() % 3)), rng() % 320);
        for (size_t idx = tokens.empty() ? 0 : rng() % tokens.size(); idx < tokens.size(); ++idx) {
          if (rng() % 40 == 0) tokens[idx] += static_cast<TokenId>(rng() % 2);
        }
        if (!live.back()->append(tokens)) {
          ++refused;
          live.pop_back();
        }
        continue;
      }
      const size_t pick = rng() % live.size();
      const auto first = static_cast<TokenId>(live[pick]->kv.prefix_length());
      const Tokens more = count_from(first, rng() % 40);
      const bool grown =
          rng() % 5 != 0 &&
          (rng() % 2 == 0 ? live[pick]->append(more) : live[pick]->append_by_tree(more, node));
      if (!grown) {
        adopted += live[pick]->adopted;
        live.erase(live.begin() + static_cast<ptrdiff_t>(pick));
      }
      for (const auto& text : live) text->check();
      if (HasFatalFailure()) return;
    }
    live.clear();
    EXPECT_EQ(storage.pool.used_blocks(), 0);
    EXPECT_EQ(storage.cache.pages(), storage.pool.idle_blocks());
  }
  EXPECT_GT(adopted, 3'000u);
  EXPECT_GT(refused, 5) << "memory was to run short";
}

}  // namespace
}  // namespace forerun
