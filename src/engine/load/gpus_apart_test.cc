#include "engine/load/gpus_apart.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "engine/load/launch_rig.h"

namespace forerun {
namespace {

std::string describe(int32_t rank) { return "rank " + std::to_string(rank); }

TEST(GpusApart, OneOfTwoProcessesIsRefusedByTheNamesOfBoth) {
  const Status status = check_gpus_apart(
      {{}, {{"cuda:0", "a"}, {"cuda:1", "b"}}, {{"cuda:0", "c"}}, {{"cuda:3", "b"}}}, describe);
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
  EXPECT_NE(status.message().find("cuda:1 of rank 1 and cuda:3 of rank 3"), std::string::npos)
      << status.message();
}

TEST(GpusApart, OneProcessMayUseOneTwiceAndHostsMayUseTheSameNames) {
  // A draft beside its stage in one process; cuda:0 of two hosts.
  EXPECT_TRUE(
      check_gpus_apart({{{"cuda:0", "a"}, {"cuda:0", "a"}}, {{"cuda:0", "b"}}}, describe).ok());
  EXPECT_TRUE(check_gpus_apart({{}, {}}, describe).ok());
}

// Every rank of a launch passes its entry of `gpus`.
std::vector<Status> keep_apart(const std::vector<Result<std::vector<OwnedGpu>>>& gpus) {
  return start_on_all_ranks(
      static_cast<int32_t>(gpus.size()) - 1, [&](const std::shared_ptr<Hosts>& hosts) {
        return keep_gpus_apart(*hosts, gpus[static_cast<size_t>(hosts->rank())]);
      });
}

TEST(GpusApart, ALaunchOfProcessesThatShareOneEndsInAllOfThem) {
  using Gpus = std::vector<OwnedGpu>;
  for (const Status& status :
       keep_apart({Gpus{}, Gpus{{"cuda:0", "a"}}, Gpus{{"cuda:0", "b"}, {"cuda:1", "c"}}})) {
    EXPECT_TRUE(status.ok()) << status.message();
  }
  expect_all_fail(
      keep_apart({Gpus{}, Gpus{{"cuda:0", "a"}}, Gpus{{"cuda:1", "b"}, {"cuda:2", "a"}}}),
      StatusCode::kInvalidArgument,
      "cuda:0 of rank 1 (stage 1 of 2) and cuda:2 of rank 2 (stage 2 of 2)");
  // The coordinator's GPUs, for the draft, count as well.
  expect_all_fail(keep_apart({Gpus{{"cuda:4", "a"}}, Gpus{{"cuda:0", "a"}}}),
                  StatusCode::kInvalidArgument, "cuda:4 of rank 0 (the coordinator)");
  expect_all_fail(keep_apart({Gpus{}, Status(StatusCode::kNotFound, "devices: found cuda:9")}),
                  StatusCode::kNotFound, "devices: found cuda:9");
}

}  // namespace
}  // namespace forerun
