#include "engine/device_spec.h"

#include <gtest/gtest.h>

#include <string>

namespace forerun {
namespace {

TEST(DeviceSpec, ListsAndRanges) {
  EXPECT_EQ(*parse_cpu_devices("cpu:1,cpu:0"), (std::vector<int32_t>{0, 1}));
  EXPECT_EQ(*parse_cpu_devices("cpu:2-4"), (std::vector<int32_t>{2, 3, 4}));
  EXPECT_FALSE((*parse_cpu_devices("")).empty());
}

TEST(DeviceSpec, NamesWhatItRefuses) {
  for (const char* spec : {"gpu", "cpu:", "cpu:x", "cpu:3-1", "cpu:0,", "cpu:-1", "cpu:0,cpu:0",
                           "cpu:0-99999999", "cuda:0"}) {
    const auto result = parse_cpu_devices(spec);
    ASSERT_FALSE(result.ok()) << spec;
    EXPECT_NE(result.status().message().find("devices:"), std::string::npos);
  }
}

TEST(DeviceSpec, SplitsProcessorsBetweenTheModels) {
  EXPECT_TRUE(split_cpu_devices("cpu:0,cpu:1", "")->draft.empty());
  const auto split = split_cpu_devices("cpu:0,cpu:2", "cpu:1");
  ASSERT_TRUE(split.ok());
  EXPECT_EQ(split->target, (std::vector<int32_t>{0, 2}));
  EXPECT_EQ(split->draft, (std::vector<int32_t>{1}));
  // The rest is the target's.
  const std::vector<int32_t> all = *parse_cpu_devices("");
  const std::string first = "cpu:" + std::to_string(all.front());
  const auto rest = split_cpu_devices("", first);
  ASSERT_EQ(rest.ok(), all.size() > 1);
  if (!rest.ok()) return;
  EXPECT_EQ(rest->target, std::vector<int32_t>(all.begin() + 1, all.end()));
}

TEST(DeviceSpec, RefusesAProcessorForBothAndNoneForTheTarget) {
  const auto both = split_cpu_devices("cpu:0-3", "cpu:3,cpu:4");
  ASSERT_FALSE(both.ok());
  EXPECT_NE(both.status().message().find("cpu:3"), std::string::npos);
  const auto none = split_cpu_devices("", "cpu");
  ASSERT_FALSE(none.ok());
  EXPECT_NE(none.status().message().find("draft devices"), std::string::npos);
  EXPECT_FALSE(split_cpu_devices("cpu:0", "gpu").ok());
  EXPECT_FALSE(split_cpu_devices("gpu", "cpu:0").ok());
}

}  // namespace
}  // namespace forerun
