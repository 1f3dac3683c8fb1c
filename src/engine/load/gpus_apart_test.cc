#include "engine/load/gpus_apart.h"

#include <gtest/gtest.h>

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

}  // namespace
}  // namespace forerun
