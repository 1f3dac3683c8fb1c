// Checks from which tokens the view chooses, and how many blocks the index takes.
#include "views/pq_cache.h"

#include <gtest/gtest.h>

#include "step/step.h"
#include "views/kv_index_blocks.h"

namespace forerun {
namespace {

TEST(PqCache, ChoosesByItsIndexAtEveryStep) {
  const PqCache view(320);
  EXPECT_EQ(view.choice().by, KvObservers::kOwnRows);
  EXPECT_TRUE(view.choice().by_index);
  for (int32_t prefix = 0; prefix < 3000; ++prefix) {
    const KvViewLayout layout = view.layout(prefix, {prefix / 64, prefix});
    if (prefix / 64 + 1 <= 5) {
      ASSERT_EQ(layout.tail_block, layout.head_blocks) << "all of it fits";
      continue;
    }
    ASSERT_TRUE(layout.chooses);
    ASSERT_EQ(layout.head_blocks, 4);
    ASSERT_EQ(layout.tail_block, prefix / 64);
  }
}

TEST(PqCache, ItsIndexIsASixteenthOfTheCacheAndItsCentroids) {
  EXPECT_EQ(kv_index_blocks(0, 64), 4);
  EXPECT_EQ(kv_index_blocks(1024, 64), 5);
  EXPECT_EQ(kv_index_blocks(8192, 64), 12);
  EXPECT_EQ(kv_index_blocks(32768, 128), 20);
  EXPECT_EQ(PqCache::own_blocks(2048, {.tokens = 32768, .head_dim = 128}), 31 + 20);
}

TEST(PqCache, RefusesABudgetOfNoChoice) {
  EXPECT_EQ(
      PqCache::check(127).message(),
      "view_budget: found 127; accepted with view pqcache: at least 128 tokens, a block of 64 for "
      "the last tokens and one for what is chosen");
  EXPECT_TRUE(PqCache::check(128).ok());
}

}  // namespace
}  // namespace forerun
