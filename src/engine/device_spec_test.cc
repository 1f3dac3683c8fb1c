#include "engine/device_spec.h"

#include <gtest/gtest.h>

#include <string>

namespace forerun {
namespace {

using Cores = std::vector<std::vector<int32_t>>;

Cores cores_of(const std::vector<CpuCores>& devices) {
  Cores cores;
  for (const CpuCores& device : devices) cores.push_back(device.cores);
  return cores;
}

TEST(DeviceSpec, CommasSeparateDevicesRangesAndSumsMakeTeams) {
  EXPECT_EQ(cores_of(*parse_cpu_devices("cpu:0")), (Cores{{0}}));
  EXPECT_EQ(cores_of(*parse_cpu_devices("cpu:1,cpu:0")), (Cores{{1}, {0}}));
  EXPECT_EQ(cores_of(*parse_cpu_devices("cpu:2-4")), (Cores{{2, 3, 4}}));
  EXPECT_EQ(cores_of(*parse_cpu_devices("cpu:5+1-2,cpu:3")), (Cores{{1, 2, 5}, {3}}));
  EXPECT_EQ(cores_of(*parse_cpu_devices("cpu:0,cpu:0,cpu:0")), (Cores{{0}, {0}, {0}}));
  EXPECT_EQ(cores_of(*parse_cpu_devices("")), (Cores{available_cores()}));
  EXPECT_EQ(cores_of(*parse_cpu_devices("cpu,cpu")), (Cores{available_cores(), available_cores()}));
}

TEST(DeviceSpec, NamesWhatItRefuses) {
  for (const char* spec : {"gpu", "cpu:", "cpu:x", "cpu:3-1", "cpu:0,", "cpu:-1", "cpu:0+",
                           "cpu:0+0", "cpu:0-2+1", "cpu:0-99999999", "cuda:0", ",", "cpu:0 "}) {
    const auto result = parse_cpu_devices(spec);
    ASSERT_FALSE(result.ok()) << spec;
    EXPECT_NE(result.status().message().find("devices:"), std::string::npos);
  }
}

TEST(DeviceSpec, SplitsProcessorsBetweenTheModels) {
  EXPECT_TRUE(split_cpu_devices("cpu:0,cpu:1", "")->draft.empty());
  const auto split = split_cpu_devices("cpu:0,cpu:2", "cpu:1");
  ASSERT_TRUE(split.ok());
  EXPECT_EQ(cores_of(split->target), (Cores{{0}, {2}}));
  EXPECT_EQ(cores_of(split->draft), (Cores{{1}}));
  // The rest is the target's, as one device.
  const std::vector<int32_t> all = available_cores();
  const std::string first = "cpu:" + std::to_string(all.front());
  const auto rest = split_cpu_devices("", first + "," + first);
  ASSERT_EQ(rest.ok(), all.size() > 1);
  if (!rest.ok()) return;
  EXPECT_EQ(cores_of(rest->target), (Cores{{all.begin() + 1, all.end()}}));
  EXPECT_EQ(cores_of(rest->draft), (Cores{{all.front()}, {all.front()}}));
}

TEST(DeviceSpec, RefusesAProcessorForBothAndNoneForTheTarget) {
  const auto both = split_cpu_devices("cpu:0-2,cpu:3", "cpu:3-4,cpu:5");
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
