#include "engine/loop/prefix_salts.h"

#include <gtest/gtest.h>

#include <set>
#include <string>

namespace forerun {
namespace {

TEST(PrefixSalts, AreNumbersOfTheirOwn) {
  PrefixSalts salts;
  EXPECT_EQ(salts.number(""), 0u);
  const uint64_t first = salts.number("a");
  EXPECT_GE(first, kFirstPrefixSalt);
  EXPECT_NE(salts.number("b"), first);
  EXPECT_EQ(salts.number("a"), first);
}

TEST(PrefixSalts, TheLatestAreRememberedAndNoNumberIsGivenTwice) {
  PrefixSalts salts;
  const uint64_t used = salts.number("used");
  const uint64_t unused = salts.number("unused");
  std::set<uint64_t> seen = {used, unused};
  for (size_t count = 0; count < 2 * PrefixSalts::kMaxKept; ++count) {
    EXPECT_TRUE(seen.insert(salts.number(std::to_string(count))).second);
    ASSERT_EQ(salts.number("used"), used);
  }
  EXPECT_TRUE(seen.insert(salts.number("unused")).second);
}

}  // namespace
}  // namespace forerun
