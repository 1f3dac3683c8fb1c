// Checks from which tokens the view chooses, and how long the tail is.
#include "views/top_k.h"

#include <gtest/gtest.h>

#include "step/step.h"

namespace forerun {
namespace {

TEST(TopK, ChoosesAnewAtEveryStepFromAllBeforeTheLastBlock) {
  for (const int32_t budget : {128, 192, 200, 512}) {
    const TopK view(budget);
    EXPECT_EQ(view.choice().by, KvObservers::kOwnRows);
    EXPECT_EQ(view.choice().pooling, 1);
    for (int32_t prefix = 0; prefix < 3000; ++prefix) {
      const KvViewLayout layout = view.layout(prefix, {prefix / 64, prefix});
      if (prefix / 64 + 1 <= budget / 64) {
        ASSERT_EQ(layout.tail_block, layout.head_blocks) << "all of it fits";
        continue;
      }
      ASSERT_TRUE(layout.chooses);
      ASSERT_EQ(layout.head_blocks, budget / 64 - 1);
      ASSERT_EQ(layout.tail_block, prefix / 64);
    }
  }
}

TEST(TopK, RefusesABudgetOfNoChoice) {
  EXPECT_EQ(TopK::check(127).message(),
            "view_budget: found 127; accepted with view topk: at least 128 tokens, a block of 64 "
            "for the last "
            "tokens and one for what is chosen");
  EXPECT_TRUE(TopK::check(128).ok());
}

}  // namespace
}  // namespace forerun
