// Checks properties that every view of the table must have.
#include "views/view_table.h"

#include <gtest/gtest.h>

#include <set>
#include <string>

#include "step/step.h"
#include "views/kv_index_blocks.h"

namespace forerun {
namespace {

void expect_choice(const KvViewEntry& entry, int32_t budget, const KvView& view,
                   const KvViewLayout& layout, int32_t prefix) {
  if (!layout.head_is_chosen) {
    ASSERT_FALSE(layout.chooses);
    return;
  }
  const KvChoice choice = view.choice();
  ASSERT_NE(entry.needs, KvViewNeeds::kNothing);
  ASSERT_EQ(choice.by_index, entry.needs == KvViewNeeds::kQuantizedKeys);
  const int32_t own = entry.own_blocks(budget, {.tokens = prefix, .head_dim = 64});
  ASSERT_EQ(own, layout.head_blocks + (choice.by_index ? kv_index_blocks(prefix, 64) : 0));
  ASSERT_NE(choice.by, KvObservers::kNobody);
  ASSERT_GT(choice.observers, 0);
  const int32_t behind = choice.by == KvObservers::kLastTokens ? choice.observers : 0;
  ASSERT_GE(prefix - layout.tail_block * kKvBlockTokens, behind);
  ASSERT_EQ(choice.pooling % 2, 1);
}

TEST(ViewTable, NamesAreUniqueAndEveryViewKeepsItsPromises) {
  std::set<std::string> names;
  for (const KvViewEntry& entry : view_table()) {
    SCOPED_TRACE(entry.name);
    EXPECT_TRUE(names.insert(entry.name).second);
    EXPECT_NE(std::string(entry.help), "");
    EXPECT_EQ(find_view(entry.name), &entry);
    EXPECT_NE(view_names().find(entry.name), std::string::npos);
    const bool needs_nothing = entry.needs == KvViewNeeds::kNothing;
    EXPECT_EQ(view_names(KvViewNeeds::kNothing).find(entry.name) != std::string::npos,
              needs_nothing);
    EXPECT_EQ(entry.own_blocks(4096, {.tokens = 9000, .head_dim = 64}) == 0, needs_nothing);
    EXPECT_TRUE(entry.check(entry.facts.budget).ok());
    EXPECT_GT(entry.facts.acceptance, 0.5);
    EXPECT_LT(entry.facts.acceptance, 1.0);
    EXPECT_NE(std::string(entry.facts.acceptance_source), "");
    const Status refused = entry.check(1);
    EXPECT_EQ(refused.code(), StatusCode::kInvalidArgument);
    EXPECT_NE(refused.message().find(entry.name), std::string::npos);
    EXPECT_NE(refused.message().find("found 1"), std::string::npos);
    for (int32_t budget = 1; budget < 5000; budget += 7) {
      if (!entry.check(budget).ok()) continue;
      const auto view = entry.make(budget);
      KvChosen chosen;
      for (int32_t prefix = 0; prefix < 10000; prefix += 61) {
        const KvViewLayout layout = view->layout(prefix, chosen);
        expect_choice(entry, budget, *view, layout, prefix);
        if (layout.chooses) chosen = {layout.tail_block, prefix};
        // Rows right after a verification attend to the tokens that it has chosen.
        const KvViewLayout verified = view->layout_by_verification(prefix, chosen);
        if (verified.chooses) {
          expect_choice(entry, budget, *view, verified, prefix);
          const KvViewLayout next = view->layout(prefix, {verified.tail_block, prefix});
          ASSERT_EQ(next.tail_block, verified.tail_block);
          ASSERT_EQ(next.head_blocks, verified.head_blocks);
          ASSERT_EQ(next.chooses, view->choice().by == KvObservers::kOwnRows);
        }
        ASSERT_GE(layout.head_blocks, 0);
        ASSERT_GE(layout.tail_block, layout.head_blocks);
        if (layout.tail_block == layout.head_blocks) continue;  // attends to everything
        ASSERT_LE(layout.tail_block * kKvBlockTokens, prefix);
        const int32_t grown = layout.head_is_chosen ? prefix - chosen.prefix_tokens : 0;
        const int32_t tail = prefix - layout.tail_block * kKvBlockTokens;
        ASSERT_LE(layout.head_blocks * kKvBlockTokens + tail - grown,
                  budget + (layout.head_is_chosen ? kKvBlockTokens / 2 : 0));
      }
    }
  }
  EXPECT_EQ(find_view("everything"), nullptr);
}

}  // namespace
}  // namespace forerun
