#include "engine/load/device_splits.h"

#include <gtest/gtest.h>

#include <numeric>
#include <vector>

namespace forerun {
namespace {

TEST(DeviceSplits, SplitsShareOutEveryProcessorOnce) {
  for (const int32_t total : {1, 2, 3, 8, 12, 64}) {
    std::vector<int32_t> cores(static_cast<size_t>(total));
    std::iota(cores.begin(), cores.end(), 10);
    const Placement whole{.target = {.gpus = {}, .devices = {{.cores = cores}}}, .draft = {}};
    const std::vector<Placement> splits = splits_of(whole);
    EXPECT_FALSE(splits.front().draft);
    EXPECT_EQ(splits.front().target.devices.front().cores, cores);
    EXPECT_EQ(splits.size(), total <= 8 ? static_cast<size_t>(total) : total == 12 ? 5u : 7u);
    for (size_t idx = 1; idx < splits.size(); ++idx) {
      std::vector<int32_t> both = splits[idx].target.devices.front().cores;
      ASSERT_TRUE(splits[idx].draft);
      const std::vector<int32_t>& draft = splits[idx].draft->devices.front().cores;
      EXPECT_FALSE(both.empty() || draft.empty());
      both.insert(both.end(), draft.begin(), draft.end());
      EXPECT_EQ(both, cores);
    }
  }
}

TEST(DeviceSplits, AGroupIsSplitByDevices) {
  const Placement whole{
      .target = {.gpus = {}, .devices = {{.cores = {0, 1}}, {.cores = {2, 3}}, {.cores = {4, 6}}}},
      .draft = {}};
  const std::vector<Placement> splits = splits_of(whole);
  ASSERT_EQ(splits.size(), 3u);
  EXPECT_EQ(describe(splits[0]), "cpu:0-1,cpu:2-3,cpu:4+6, both models sequentially");
  EXPECT_EQ(describe(splits[1]), "target cpu:0-1,cpu:2-3, draft cpu:4+6");
  EXPECT_EQ(describe(splits[2]), "target cpu:0-1, draft cpu:2-3,cpu:4+6");
}

}  // namespace
}  // namespace forerun
