// What the table must hold of every view.
#include "views/view_table.h"

#include <gtest/gtest.h>

#include <set>
#include <string>

#include "step/step.h"

namespace forerun {
namespace {

TEST(ViewTable, NamesAreUniqueAndEveryViewKeepsItsPromises) {
  std::set<std::string> names;
  for (const KvViewEntry& entry : view_table()) {
    SCOPED_TRACE(entry.name);
    EXPECT_TRUE(names.insert(entry.name).second);
    EXPECT_NE(std::string(entry.help), "");
    EXPECT_EQ(find_view(entry.name), &entry);
    EXPECT_NE(view_names().find(entry.name), std::string::npos);
    const Status refused = entry.check(1);
    EXPECT_EQ(refused.code(), StatusCode::kInvalidArgument);
    EXPECT_NE(refused.message().find(entry.name), std::string::npos);
    EXPECT_NE(refused.message().find("found 1"), std::string::npos);
    for (int32_t budget = 1; budget < 5000; budget += 7) {
      if (!entry.check(budget).ok()) continue;
      const auto view = entry.make(budget);
      int32_t chosen_for = 0;
      for (int32_t prefix = 0; prefix < 10000; prefix += 61) {
        const KvViewLayout layout = view->layout(prefix, chosen_for);
        if (layout.head_is_chosen) {
          chosen_for = layout.tail_block;
          ASSERT_EQ(layout.head_blocks, entry.own_blocks(budget));
          ASSERT_GT(view->choice().observers, 0);
          ASSERT_GE(prefix - layout.tail_block * kKvBlockTokens, view->choice().observers);
          ASSERT_EQ(view->choice().pooling % 2, 1);
        }
        ASSERT_GE(layout.head_blocks, 0);
        ASSERT_GE(layout.tail_block, layout.head_blocks);
        if (layout.tail_block == layout.head_blocks) continue;  // everything
        ASSERT_LE(layout.tail_block * kKvBlockTokens, prefix);
        ASSERT_LE(layout.head_blocks * kKvBlockTokens + prefix - layout.tail_block * kKvBlockTokens,
                  budget);
      }
    }
  }
  EXPECT_EQ(find_view("everything"), nullptr);
}

}  // namespace
}  // namespace forerun
