#include "engine/device_spec.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

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
  EXPECT_FALSE(place_models("cpu:0,cpu:1", "")->draft.has_value());
  const auto split = place_models("cpu:0,cpu:2", "cpu:1");
  ASSERT_TRUE(split.ok());
  EXPECT_EQ(split->target.cores, (std::vector<int32_t>{0, 2}));
  EXPECT_EQ(split->draft->cores, (std::vector<int32_t>{1}));
  EXPECT_FALSE(split->target.gpu || split->draft->gpu);
  // The rest is the target's.
  const std::vector<int32_t> all = *parse_cpu_devices("");
  const std::string first = "cpu:" + std::to_string(all.front());
  const auto rest = place_models("", first);
  ASSERT_EQ(rest.ok(), all.size() > 1);
  if (!rest.ok()) return;
  EXPECT_EQ(rest->target.cores, std::vector<int32_t>(all.begin() + 1, all.end()));
}

TEST(DeviceSpec, RefusesAProcessorForBothAndNoneForTheTarget) {
  const auto both = place_models("cpu:0-3", "cpu:3,cpu:4");
  ASSERT_FALSE(both.ok());
  EXPECT_NE(both.status().message().find("cpu:3"), std::string::npos);
  const auto none = place_models("", "cpu");
  ASSERT_FALSE(none.ok());
  EXPECT_NE(none.status().message().find("draft devices"), std::string::npos);
  EXPECT_FALSE(place_models("cpu:0", "gpu").ok());
  EXPECT_FALSE(place_models("gpu", "cpu:0").ok());
}

TEST(DeviceSpec, GpusRunModelsAndProcessorsSample) {
  const auto both = place_models("cuda:1", "");
  ASSERT_TRUE(both.ok()) << both.status().message();
  EXPECT_EQ(both->target.gpu, 1);
  EXPECT_EQ(both->target.cores, *parse_cpu_devices(""));
  EXPECT_FALSE(both->draft.has_value());
  const auto split = place_models("cuda", "cuda:2");
  ASSERT_TRUE(split.ok()) << split.status().message();
  EXPECT_EQ(split->target.gpu, 0);
  EXPECT_EQ(split->draft->gpu, 2);
  EXPECT_FALSE(split->target.cores.empty() || split->draft->cores.empty());
  const auto mixed = place_models("cuda:0", "cpu:0");
  ASSERT_TRUE(mixed.ok()) << mixed.status().message();
  EXPECT_FALSE(mixed->draft->gpu);
  EXPECT_EQ(mixed->draft->cores, std::vector<int32_t>{0});
  for (const auto& [target, draft] : {std::pair("cuda:0", "cuda:0"), std::pair("cuda:x", ""),
                                      std::pair("cuda:0,cuda:1", ""), std::pair("cuda0", "")}) {
    EXPECT_FALSE(place_models(target, draft).ok()) << target << " " << draft;
  }
}

}  // namespace
}  // namespace forerun
