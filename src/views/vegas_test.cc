// Checks when a verification chooses, when the last tokens choose, and what remains for the tail.
#include "views/vegas.h"

#include <gtest/gtest.h>

#include "step/step.h"

namespace forerun {
namespace {

// Plays rounds of drafts and their verification; each round adds two tokens.
TEST(Vegas, VerificationsChooseEveryFewRounds) {
  for (const int32_t budget : {128, 256, 320, 2049}) {
    const Vegas view(budget);
    const int32_t head = budget / 64 - 1;
    KvChosen chosen;
    int32_t by_last_tokens = 0;
    int32_t by_verification = 0;
    for (int32_t prefix = 0; prefix < 6000; prefix += 2) {
      const KvViewLayout layout = view.layout(prefix, chosen);
      const bool all_fits = prefix < 64 * (head + 1) + 32;
      ASSERT_EQ(layout.tail_block == layout.head_blocks, all_fits);
      if (!all_fits) {
        ASSERT_TRUE(layout.head_is_chosen);
        ASSERT_EQ(layout.head_blocks, head);
        ASSERT_EQ(layout.chooses, chosen.tail_block == 0) << "the first alone";
        if (layout.chooses) {
          chosen = {layout.tail_block, prefix};
          ++by_last_tokens;
        }
        ASSERT_EQ(layout.tail_block, chosen.tail_block);
      }
      const KvViewLayout verified = view.layout_by_verification(prefix, chosen);
      ASSERT_EQ(verified.chooses, !all_fits && prefix - chosen.prefix_tokens >= 16);
      if (!verified.chooses) continue;
      ASSERT_EQ(verified.head_blocks, head);
      ASSERT_EQ(verified.tail_block, (prefix - 32) / 64);
      chosen = {verified.tail_block, prefix};
      ++by_verification;
    }
    EXPECT_EQ(by_last_tokens, 1);
    EXPECT_GT(by_verification, (6000 - budget) / 16 - 10);
  }
}

// The rows of a draft model verify nothing.
TEST(Vegas, WithoutVerificationsTheLastTokensChooseAsTheTailGrows) {
  const Vegas view(320);
  KvChosen chosen;
  int32_t choices = 0;
  for (int32_t prefix = 0; prefix < 6000; ++prefix) {
    const KvViewLayout layout = view.layout(prefix, chosen);
    if (!layout.chooses) continue;
    if (chosen.tail_block > 0 && chosen.prefix_tokens % 64 == 0) {
      ASSERT_EQ(prefix - chosen.prefix_tokens, 128);
    }
    chosen = {layout.tail_block, prefix};
    ++choices;
  }
  EXPECT_GT(choices, 40);
}

TEST(Vegas, RefusesABudgetBelowItsTail) {
  EXPECT_EQ(Vegas::check(127).message(),
            "view_budget: found 127; accepted with view vegas: at least 128 tokens, a block of 64 "
            "for the last tokens, of which 32 observe, and one for what is chosen");
  EXPECT_TRUE(Vegas::check(128).ok());
}

}  // namespace
}  // namespace forerun
