// StreamingLLM against a plain loop over tokens, and what the table must hold of every view.
#include "views/streaming_llm.h"

#include <gtest/gtest.h>

#include <set>
#include <string>

#include "step/step.h"
#include "views/view_table.h"

namespace forerun {
namespace {

// Tokens of a prefix that a layout shows.
std::set<int32_t> seen(const KvViewLayout& layout, int32_t prefix_tokens) {
  std::set<int32_t> tokens;
  for (int32_t token = 0; token < prefix_tokens; ++token) {
    const int32_t block = token / kKvBlockTokens;
    if (block < layout.head_blocks || block >= layout.tail_block) tokens.insert(token);
  }
  return tokens;
}

TEST(StreamingLlm, SeesTheFirstBlockAndAsManyOfTheLastTokensAsTheBudgetAllows) {
  for (const int32_t budget : {192, 193, 255, 256, 1000}) {
    const StreamingLlm view(budget);
    for (int32_t prefix = 0; prefix < 1500; ++prefix) {
      const std::set<int32_t> tokens = seen(view.layout(prefix), prefix);
      // A window of whole blocks: the budget is not passed, nor missed by more than two of them.
      ASSERT_LE(static_cast<int32_t>(tokens.size()), budget);
      ASSERT_GE(static_cast<int32_t>(tokens.size()),
                std::min(prefix, budget - 2 * kKvBlockTokens + 1));
      int32_t last = prefix;
      while (tokens.contains(last - 1)) --last;
      for (const int32_t token : tokens) ASSERT_TRUE(token < kKvBlockTokens || token >= last);
      ASSERT_EQ(tokens.contains(0), prefix > 0);
      // At least a block but one token of the last ones.
      ASSERT_LE(last, std::max(0, prefix - (kKvBlockTokens - 1)));
    }
  }
}

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
      for (int32_t prefix = 0; prefix < 10000; prefix += 61) {
        const KvViewLayout layout = view->layout(prefix);
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
