// Compares StreamingLLM with a plain loop over tokens.
#include "views/streaming_llm.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "step/step.h"

namespace forerun {
namespace {

// Returns the tokens of a prefix that a layout shows.
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
      const std::set<int32_t> tokens = seen(view.layout(prefix, {}), prefix);
      // The window has whole blocks: it never exceeds the budget and is at most two blocks below
      // it.
      ASSERT_LE(static_cast<int32_t>(tokens.size()), budget);
      ASSERT_GE(static_cast<int32_t>(tokens.size()),
                std::min(prefix, budget - 2 * kKvBlockTokens + 1));
      int32_t last = prefix;
      while (tokens.contains(last - 1)) --last;
      for (const int32_t token : tokens) ASSERT_TRUE(token < kKvBlockTokens || token >= last);
      ASSERT_EQ(tokens.contains(0), prefix > 0);
      // It shows at least the last tokens of one block, less one.
      ASSERT_LE(last, std::max(0, prefix - (kKvBlockTokens - 1)));
    }
  }
}

}  // namespace
}  // namespace forerun
