#include "base/id_map.h"

#include <gtest/gtest.h>

#include <map>
#include <random>

namespace forerun {
namespace {

TEST(IdMap, HoldsWhatAMapHolds) {
  IdMap<uint64_t> map;
  std::map<uint64_t, uint64_t> expected;
  std::mt19937_64 random(7);
  for (int turn = 0; turn < 20'000; ++turn) {
    const uint64_t id = random() % 300 << (random() % 3 == 0 ? 32 : 0);
    const auto known = expected.find(id);
    ASSERT_EQ(map.contains(id), known != expected.end());
    if (known == expected.end()) {
      const uint64_t value = random();
      expected[id] = map.insert(id, std::make_unique<uint64_t>(value));
      ASSERT_EQ(expected[id], value);
    } else if (random() % 4 != 0) {
      ASSERT_EQ(*map.take(id), known->second);
      expected.erase(known);
    }
    ASSERT_EQ(map.size(), expected.size());
    if (turn % 100 != 0) continue;
    std::map<uint64_t, uint64_t> found;
    for (const auto [each, value] : map) found[each] = value;
    ASSERT_EQ(found, expected);
    for (const auto& [each, value] : expected) ASSERT_EQ(*map.find(each), value);
  }
}

TEST(IdMap, EmptyHasNothing) {
  IdMap<int> map;
  EXPECT_TRUE(map.empty());
  EXPECT_EQ(map.find(0), nullptr);
  EXPECT_EQ(map.take(0), nullptr);
  EXPECT_TRUE(map.begin() == map.end());
}

TEST(IdMap, ValuesStayWhereTheyAre) {
  IdMap<int> map;
  int* const first = &map.insert(0, std::make_unique<int>(5));
  for (uint64_t id = 1; id < 1000; ++id) map.insert(id, std::make_unique<int>(0));
  for (uint64_t id = 1; id < 1000; id += 2) map.take(id);
  EXPECT_EQ(map.find(0), first);
  EXPECT_EQ(*first, 5);
}

}  // namespace
}  // namespace forerun
