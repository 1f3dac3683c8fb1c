// How a budget is divided into head and tail, and how long a choice is kept.
#include "views/gathered_budget.h"

#include <gtest/gtest.h>

namespace forerun {
namespace {

TEST(GatheredBudget, TheHeadHasWhatTheLongestTailLeaves) {
  EXPECT_EQ(GatheredBudget(512, 2, 3).head_blocks(), 5);
  EXPECT_EQ(GatheredBudget(575, 2, 3).head_blocks(), 5) << "whole blocks";
  EXPECT_EQ(GatheredBudget(192, 2, 3).head_blocks(), 1) << "no room for a longer tail";
  EXPECT_EQ(GatheredBudget(192, 2, 1).head_blocks(), 1) << "at least the shortest tail";
}

TEST(GatheredBudget, AChoiceIsKeptUntilTheTailIsTooLong) {
  const GatheredBudget budget(512, 2, 4);
  const int32_t end_of_all = 8 * 64 - 1;
  EXPECT_EQ(budget.layout(end_of_all, {}).tail_block, 0) << "everything";
  const KvViewLayout first = budget.layout(end_of_all + 1, {});
  EXPECT_TRUE(first.head_is_chosen && first.chooses);
  EXPECT_EQ(first.head_blocks, 4);
  EXPECT_EQ(first.tail_block, 7);
  const KvChosen chosen = {.tail_block = first.tail_block, .prefix_tokens = end_of_all + 1};
  const KvViewLayout kept = budget.layout(11 * 64 - 1, chosen);
  EXPECT_FALSE(kept.chooses);
  EXPECT_EQ(kept.tail_block, 7);
  EXPECT_TRUE(budget.choose(11 * 64 - 1).chooses);
  const KvViewLayout anew = budget.layout(11 * 64, chosen);
  EXPECT_TRUE(anew.chooses);
  EXPECT_EQ(anew.tail_block, 10);
  EXPECT_EQ(budget.tokens_between_choices(), 11 * 64 - (end_of_all + 1));
}

TEST(GatheredBudget, SaysWhatItIsTooSmallFor) {
  EXPECT_TRUE(GatheredBudget::check("any", 192, 2).ok());
  const Status refused = GatheredBudget::check("any", 191, 2);
  EXPECT_EQ(refused.code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(refused.message(),
            "view_budget: found 191; accepted with view any: at least 192 tokens, 2 blocks of 64 "
            "for the last "
            "tokens and one for what is chosen");
}

}  // namespace
}  // namespace forerun
