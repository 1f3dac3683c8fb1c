#include "engine/load/device_spec.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

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
  EXPECT_FALSE(place_models("cpu:0,cpu:1", "")->draft.has_value());
  const auto split = place_models("cpu:0,cpu:2", "cpu:1");
  ASSERT_TRUE(split.ok());
  EXPECT_EQ(cores_of(split->target.devices), (Cores{{0}, {2}}));
  EXPECT_EQ(cores_of(split->draft->devices), (Cores{{1}}));
  // The target gets the other processors, as one device.
  const std::vector<int32_t> all = available_cores();
  const std::string first = "cpu:" + std::to_string(all.front());
  const auto rest = place_models("", first + "," + first);
  ASSERT_EQ(rest.ok(), all.size() > 1);
  if (!rest.ok()) return;
  EXPECT_EQ(cores_of(rest->target.devices), (Cores{{all.begin() + 1, all.end()}}));
  EXPECT_EQ(cores_of(rest->draft->devices), (Cores{{all.front()}, {all.front()}}));
}

TEST(DeviceSpec, RefusesAProcessorForBothAndNoneForTheTarget) {
  const auto both = place_models("cpu:0-2,cpu:3", "cpu:3-4,cpu:5");
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
  EXPECT_EQ(both->target.gpus, (std::vector<int32_t>{1}));
  EXPECT_EQ(cores_of(both->target.devices), (Cores{available_cores()}));
  EXPECT_FALSE(both->draft.has_value());
  const auto split = place_models("cuda", "cuda:2");
  ASSERT_TRUE(split.ok()) << split.status().message();
  EXPECT_EQ(split->target.gpus, (std::vector<int32_t>{0}));
  EXPECT_EQ(split->draft->gpus, (std::vector<int32_t>{2}));
  EXPECT_FALSE(split->target.devices.empty() || split->draft->devices.empty());
  const auto mixed = place_models("cuda:0", "cpu:0");
  ASSERT_TRUE(mixed.ok()) << mixed.status().message();
  EXPECT_FALSE(mixed->draft->on_gpus());
  EXPECT_EQ(cores_of(mixed->draft->devices), (Cores{{0}}));
  const auto drafted = place_models("cpu:0", "cuda:1,cuda:0");
  ASSERT_TRUE(drafted.ok()) << drafted.status().message();
  EXPECT_EQ(cores_of(drafted->target.devices), (Cores{{0}}));
  EXPECT_EQ(drafted->draft->gpus, (std::vector<int32_t>{1, 0}));
}

TEST(DeviceSpec, GpusFormGroups) {
  const auto three = place_models("cuda:0,cuda:2,cuda:1", "cuda:3");
  ASSERT_TRUE(three.ok()) << three.status().message();
  EXPECT_EQ(three->target.gpus, (std::vector<int32_t>{0, 2, 1}));
  EXPECT_EQ(three->target.degree(), 3);
  EXPECT_EQ(three->target.devices.size(), 1u);  // for sampling
  EXPECT_EQ(three->draft->degree(), 1);
  EXPECT_EQ(describe(*three), "target cuda:0,cuda:2,cuda:1, draft cuda:3");
  EXPECT_EQ(describe(*place_models("cuda,cuda:1", "")), "cuda:0,cuda:1, both models sequentially");
  EXPECT_FALSE(three->sequential());
  EXPECT_TRUE(place_models("cuda,cuda:1", "")->sequential());
  struct Refused {
    const char *target, *draft, *message;
  };
  for (const Refused& refused :
       {Refused{"cuda:0,cuda:1", "cuda:2,cuda:1",
                "found 'cuda:2,cuda:1', which has cuda:1 in common"},
        Refused{"cuda:1,cuda:0,cuda:1", "", "found cuda:1 twice"},
        Refused{"cuda,cuda:0", "", "found cuda:0 twice"},
        Refused{"cuda:0,cpu:0", "", "found 'cpu:0'"}, Refused{"cuda:0,", "", "found ''"},
        Refused{"cuda:0-1", "", "found 'cuda:0-1'"}, Refused{"cpu:0", "cuda:x", "found 'cuda:x'"},
        Refused{"cpu:0,cuda:0", "", "found 'cuda:0'"}, Refused{"cuda0", "", "found 'cuda0'"}}) {
    const auto placed = place_models(refused.target, refused.draft);
    ASSERT_FALSE(placed.ok()) << refused.target << " " << refused.draft;
    EXPECT_NE(placed.status().message().find(refused.message), std::string::npos)
        << placed.status().message();
  }
}

TEST(DeviceSpec, SlashesSeparateStages) {
  const auto two = place_models("cpu:0,cpu:1/cpu:2-3", "cpu:4");
  ASSERT_TRUE(two.ok()) << two.status().message();
  ASSERT_EQ(two->target.num_stages(), 2);
  EXPECT_EQ(cores_of(two->target.stage(0).devices), (Cores{{0}, {1}}));
  EXPECT_EQ(cores_of(two->target.stage(1).devices), (Cores{{2, 3}}));
  EXPECT_EQ(two->target.stage(0).degree(), 2);
  EXPECT_EQ(two->target.degree(), 1);
  EXPECT_FALSE(two->sequential());
  EXPECT_EQ(describe(*two), "target cpu:0,cpu:1/cpu:2-3, draft cpu:4");
  // One group serves all stages.
  const auto shared = place_models("cpu:0,cpu:1", "", 3);
  ASSERT_TRUE(shared.ok());
  EXPECT_EQ(describe(*shared), "cpu:0,cpu:1/cpu:0,cpu:1/cpu:0,cpu:1, both models sequentially");
  EXPECT_EQ(place_models("cpu:0", "", 1)->target.num_stages(), 1);
  EXPECT_EQ(place_models("cpu:0", "", 0)->target.num_stages(), 1);
  // A draft on the GPU of one stage runs concurrently with the other stages.
  const auto gpus = place_models("cuda:0,cuda:1/cuda:2", "cuda:2");
  ASSERT_TRUE(gpus.ok()) << gpus.status().message();
  EXPECT_EQ(gpus->target.stage(0).gpus, (std::vector<int32_t>{0, 1}));
  EXPECT_TRUE(gpus->target.stage(0).devices.empty());  // only the last stage samples
  EXPECT_EQ(gpus->target.gpus, (std::vector<int32_t>{2}));
  EXPECT_FALSE(gpus->target.devices.empty() || gpus->draft->devices.empty());
  EXPECT_FALSE(gpus->sequential());
  EXPECT_EQ(describe(*gpus), "target cuda:0,cuda:1/cuda:2, draft cuda:2");
  struct Refused {
    const char *target, *draft;
    int32_t stages;
    const char* message;
  };
  for (const Refused& refused :
       {Refused{"cpu:0/cpu:1", "", 3, "found 2 groups in 'cpu:0/cpu:1' for 3 stages"},
        Refused{"cpu:0/cpu:1", "cpu:0", 0, "found cpu:0 for the target and for the draft"},
        Refused{"cpu:0/", "", 0, "found an empty group"},
        Refused{"cpu:0/cuda:0", "", 0, "accepted: processors for all stages"},
        Refused{"cuda:0/cpu:0", "", 0, "accepted: processors for all stages"},
        Refused{"cuda:0", "", 2, "cuda:0/cuda:1"}, Refused{"cuda:0,cuda:0/cuda:1", "", 0, "twice"},
        Refused{"cpu:0", "cpu:1/cpu:2", 0, "a draft is not cut"},
        Refused{"cpu:0", "", 65, "accepted: 1 to 64"}}) {
    const auto placed = place_models(refused.target, refused.draft, refused.stages);
    ASSERT_FALSE(placed.ok()) << refused.target;
    EXPECT_NE(placed.status().message().find(refused.message), std::string::npos)
        << placed.status().message();
  }
}

TEST(DeviceSpec, ADraftMayShareSomeOfItsTargetsGpus) {
  const auto some = place_models("cuda:0,cuda:1,cuda:2", "cuda:2,cuda:0");
  ASSERT_TRUE(some.ok()) << some.status().message();
  EXPECT_TRUE(some->sequential());
  EXPECT_EQ(some->draft->gpus, (std::vector<int32_t>{2, 0}));
  EXPECT_EQ(cores_of(some->draft->devices), cores_of(some->target.devices));
  EXPECT_EQ(describe(*some), "target cuda:0,cuda:1,cuda:2, draft cuda:2,cuda:0, sequentially");
  EXPECT_TRUE(place_models("cuda:0", "cuda:0")->sequential());
  for (const auto& [target, draft] : {std::pair{"cuda:0", "cpu:0"}, std::pair{"cpu:0", "cuda:0"},
                                      std::pair{"cuda:0", "cuda:1"}}) {
    EXPECT_FALSE(place_models(target, draft)->sequential()) << target << " " << draft;
  }
}

}  // namespace
}  // namespace forerun
