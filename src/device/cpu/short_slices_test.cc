#include "device/cpu/short_slices.h"

#include <gtest/gtest.h>

#include <thread>
#include <vector>

#include "device/cpu/team.h"

namespace forerun {
namespace {

// Returns whether this system lets a thread set its time slice. Asks in a new thread, since asking
// changes the thread.
bool system_has_short_slices() {
  bool has = false;
  std::thread([&] { has = ask_for_short_slices(); }).join();
  return has;
}

TEST(ShortSlices, AreTheCallingThreadsAlone) {
  if (!system_has_short_slices()) GTEST_SKIP() << "Linux from 6.12 on has them";
  const auto before = slice_length();
  std::chrono::nanoseconds asked{};
  std::thread([&] {
    ask_for_short_slices();
    asked = slice_length();
  }).join();
  EXPECT_EQ(asked, kShortSlice);
  EXPECT_EQ(slice_length(), before);
  EXPECT_GT(before, asked);
}

TEST(ShortSlices, EveryThreadOfADeviceHasThem) {
  if (!system_has_short_slices()) GTEST_SKIP() << "Linux from 6.12 on has them";
  auto device = CpuDevice::create({}, 3);
  ASSERT_TRUE(device.ok()) << device.status().message();
  std::vector<std::chrono::nanoseconds> turns(3);
  (*device)->run(
      [&](const Team& team) { turns[static_cast<size_t>(team.rank())] = slice_length(); });
  EXPECT_EQ(turns[1], kShortSlice);
  EXPECT_EQ(turns[2], kShortSlice);
}

}  // namespace
}  // namespace forerun
