// Checks arguments that a group refuses, with or without GPUs. linear/cuda/reduce_test.cc tests
// working groups.
#include "device/cuda/peer_group.h"

#include <gtest/gtest.h>

#include <vector>

namespace forerun::cuda {
namespace {

TEST(PeerGroup, RefusesWhatIsNoGroup) {
  const PeerGroupOptions options{.max_rows = 8, .width = 64};
  const auto code = [&](const std::vector<int>& devices) {
    return PeerGroup::create(devices, options).status().code();
  };
  EXPECT_EQ(code({0}), StatusCode::kInvalidArgument);
  EXPECT_EQ(code({0, 1, 2, 3, 4, 5, 6, 7, 8}), StatusCode::kInvalidArgument);
  EXPECT_EQ(code({0, 1, 0}), StatusCode::kInvalidArgument);
  EXPECT_EQ(code({0, 1000}), StatusCode::kNotFound);
  EXPECT_EQ(PeerGroup::create(std::vector<int>{0, 1}, {.max_rows = 8}).status().code(),
            StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace forerun::cuda
