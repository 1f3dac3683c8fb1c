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

}  // namespace
}  // namespace forerun
