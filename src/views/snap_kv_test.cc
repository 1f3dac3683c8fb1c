// Checks when the view chooses a head, how long it keeps it, and what remains for the tail.
#include "views/snap_kv.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "step/step.h"

namespace forerun {
namespace {

TEST(SnapKv, ChoosesAHeadAndKeepsItUntilTheTextHasGrownByHalfTheBudget) {
  for (const int32_t budget : {128, 192, 256, 320, 512, 2049}) {
    const SnapKv view(budget);
    const int32_t head = budget / 64 - 1;
    KvChosen chosen;
    for (int32_t prefix = 0; prefix < 9000; ++prefix) {
      const KvViewLayout layout = view.layout(prefix, chosen);
      if (prefix < 64 * (head + 1) + 32) {
        ASSERT_EQ(layout.tail_block, layout.head_blocks) << "all of it fits";
        continue;
      }
      ASSERT_TRUE(layout.head_is_chosen);
      ASSERT_EQ(layout.head_blocks, head);
      ASSERT_EQ(layout.chooses, layout.tail_block != chosen.tail_block);
      if (!layout.chooses) continue;
      // Between the candidates and the prefix's end lie the observers and less than a block more.
      ASSERT_GE(prefix - 64 * layout.tail_block, 32);
      ASSERT_LT(prefix - 64 * layout.tail_block, 96);
      ASSERT_GT(layout.tail_block, head) << "the choice leaves some out";
      if (chosen.tail_block > 0 && chosen.prefix_tokens % 64 == 0) {
        ASSERT_EQ(prefix - chosen.prefix_tokens, SnapKv::tokens_between_reruns(budget));
      }
      chosen = {layout.tail_block, prefix};
    }
    EXPECT_GT(chosen.tail_block, 0);
    EXPECT_EQ(SnapKv::tokens_between_reruns(budget), 64 * std::max(budget / 128, 2));
  }
}

TEST(SnapKv, RefusesABudgetBelowItsWindow) {
  EXPECT_EQ(
      SnapKv::check(127).message(),
      "view_budget: found 127; accepted with view snapkv: at least 128 tokens, a block of 64 for "
      "the last tokens, of which 32 observe, and one for what is chosen");
  EXPECT_TRUE(SnapKv::check(128).ok());
}

}  // namespace
}  // namespace forerun
