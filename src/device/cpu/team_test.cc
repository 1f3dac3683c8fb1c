#include "device/cpu/team.h"

#include <gtest/gtest.h>

#include <numeric>

namespace forerun {
namespace {

TEST(Team, SharesCoverTheRangeOnceInWholeGrains) {
  for (int32_t size : {1, 2, 3, 7}) {
    for (int64_t count : {0, 1, 5, 16, 100, 101}) {
      for (int64_t grain : {1, 4, 16}) {
        int64_t expected_begin = 0;
        for (int32_t rank = 0; rank < size; ++rank) {
          const WorkRange range = Team(rank, size, nullptr).share(count, grain);
          EXPECT_EQ(range.begin, std::min(expected_begin, count));
          EXPECT_TRUE(range.end == count || range.end % grain == 0);
          expected_begin = range.end;
        }
        EXPECT_EQ(expected_begin, count);
      }
    }
  }
}

TEST(CpuDevice, EveryMemberSeesWhatOthersWroteBeforeABarrier) {
  for (int32_t size : {1, 2, 3, 5}) {
    auto device = CpuDevice::create({}, size);
    ASSERT_TRUE(device.ok()) << device.status().message();
    std::vector<int64_t> cells(static_cast<size_t>(size), 0);
    std::vector<int64_t> sums(static_cast<size_t>(size), 0);
    constexpr int64_t kRounds = 300;
    for (int repeat = 0; repeat < 20; ++repeat) {
      (*device)->run([&](const Team& team) {
        const size_t rank = static_cast<size_t>(team.rank());
        for (int64_t round = 0; round < kRounds; ++round) {
          cells[rank] = round;
          team.sync();
          sums[rank] += std::accumulate(cells.begin(), cells.end(), int64_t{0});
          team.sync();
        }
      });
    }
    for (int64_t sum : sums) EXPECT_EQ(sum, 20 * size * kRounds * (kRounds - 1) / 2);
  }
}

TEST(CpuDevice, RefusesCoresThatAreNotThere) {
  const std::vector<int32_t> cores = {100000};
  auto device = CpuDevice::create(cores);
  ASSERT_FALSE(device.ok());
  EXPECT_NE(device.status().message().find("cpu:100000"), std::string::npos);
  EXPECT_FALSE(CpuDevice::create({}, 0).ok());
}

}  // namespace
}  // namespace forerun
