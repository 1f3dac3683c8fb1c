// When a head is chosen, for how much text, and what is left to the tail.
#include "views/snap_kv.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "step/step.h"

namespace forerun {
namespace {

TEST(SnapKv, ChoosesAHeadAndKeepsItUntilTheTailIsHalfTheBudget) {
  for (const int32_t budget : {192, 256, 320, 512, 2049}) {
    const SnapKv view(budget);
    const int32_t head = budget / 64 - std::max(budget / 64 / 2, 2);
    KvChosen chosen;
    for (int32_t prefix = 0; prefix < 9000; ++prefix) {
      const KvViewLayout layout = view.layout(prefix, chosen);
      if (prefix / 64 + 1 <= budget / 64) {
        ASSERT_EQ(layout.tail_block, layout.head_blocks) << "all of it fits";
        continue;
      }
      ASSERT_TRUE(layout.head_is_chosen);
      ASSERT_EQ(layout.head_blocks, head);
      ASSERT_EQ(layout.chooses, layout.tail_block != chosen.tail_block);
      if (!layout.chooses) continue;
      // At least one block follows the tokens that are chosen from, and the choice leaves some out.
      ASSERT_GE(prefix - 64 * layout.tail_block, 64);
      ASSERT_GE(layout.tail_block, head);
      if (chosen.tail_block > 0) {
        ASSERT_EQ(prefix - chosen.prefix_tokens, 64 * (budget / 64 - head - 1));
        ASSERT_EQ(prefix - chosen.prefix_tokens, SnapKv::tokens_between_reruns(budget));
      }
      chosen = {layout.tail_block, prefix};
    }
    EXPECT_GT(chosen.tail_block, 0);
  }
}

TEST(SnapKv, RefusesABudgetBelowItsWindow) {
  EXPECT_EQ(
      SnapKv::check(191).message(),
      "view_budget: found 191; accepted with view snapkv: at least 192 tokens, 2 blocks of 64 for "
      "the last tokens, of which 32 observe, and one for what they choose");
  EXPECT_TRUE(SnapKv::check(192).ok());
}

}  // namespace
}  // namespace forerun
