// Checks how a budget is divided into head and tail, and how long a choice lasts.
#include "views/gathered_budget.h"

#include <gtest/gtest.h>

namespace forerun {
namespace {

TEST(GatheredBudget, TheHeadHasAllButABlock) {
  EXPECT_EQ(GatheredBudget(512, 32, 3).head_blocks(), 7);
  EXPECT_EQ(GatheredBudget(575, 32, 0).head_blocks(), 7) << "whole blocks";
  EXPECT_EQ(GatheredBudget(128, 0, 0).head_blocks(), 1);
}

TEST(GatheredBudget, AChoiceIsKeptUntilTheTailIsTooLong) {
  const GatheredBudget budget(512, 32, 2);
  // With 32 tokens in the ninth block, the window lies in that block alone.
  const int32_t end_of_all = 8 * 64 + 31;
  EXPECT_EQ(budget.layout(end_of_all, {}).tail_block, 0) << "everything";
  const KvViewLayout first = budget.layout(end_of_all + 1, {});
  EXPECT_TRUE(first.head_is_chosen && first.chooses);
  EXPECT_EQ(first.head_blocks, 7);
  EXPECT_EQ(first.tail_block, 8);
  const KvChosen chosen = {.tail_block = first.tail_block, .prefix_tokens = end_of_all + 1};
  const KvViewLayout kept = budget.layout(12 * 64 - 1, chosen);
  EXPECT_FALSE(kept.chooses);
  EXPECT_EQ(kept.tail_block, 8);
  EXPECT_TRUE(budget.choose(12 * 64 - 1).chooses);
  const KvViewLayout anew = budget.layout(12 * 64, chosen);
  EXPECT_TRUE(anew.chooses);
  EXPECT_EQ(anew.tail_block, 11) << "the window lies in the block before";
  const KvChosen next = {.tail_block = anew.tail_block, .prefix_tokens = 12 * 64};
  EXPECT_FALSE(budget.layout(15 * 64 - 1, next).chooses);
  EXPECT_TRUE(budget.layout(15 * 64, next).chooses);
  EXPECT_EQ(budget.tokens_between_choices(), (15 - 12) * 64);
}

TEST(GatheredBudget, SaysWhatItIsTooSmallFor) {
  EXPECT_TRUE(GatheredBudget::check("any", 128, 32).ok());
  const Status refused = GatheredBudget::check("any", 127, 32);
  EXPECT_EQ(refused.code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(refused.message(),
            "view_budget: found 127; accepted with view any: at least 128 tokens, a block of 64 "
            "for the last tokens, of which 32 observe, and one for what is chosen");
}

}  // namespace
}  // namespace forerun
