#include "device/cpu/short_turns.h"

#include <gtest/gtest.h>

#include <thread>
#include <vector>

#include "device/cpu/team.h"

namespace forerun {
namespace {

// Whether this system lets a thread set its time slice. Asks in a new thread, since asking changes
// the thread.
bool system_has_short_turns() {
  bool has = false;
  std::thread([&] { has = ask_for_short_turns(); }).join();
  return has;
}

TEST(ShortTurns, AreTheCallingThreadsAlone) {
  if (!system_has_short_turns()) GTEST_SKIP() << "Linux from 6.12 on has them";
  const auto before = turn_length();
  std::chrono::nanoseconds asked{};
  std::thread([&] {
    ask_for_short_turns();
    asked = turn_length();
  }).join();
  EXPECT_EQ(asked, kShortTurn);
  EXPECT_EQ(turn_length(), before);
  EXPECT_GT(before, asked);
}

TEST(ShortTurns, EveryThreadOfADeviceHasThem) {
  if (!system_has_short_turns()) GTEST_SKIP() << "Linux from 6.12 on has them";
  auto device = CpuDevice::create({}, 3);
  ASSERT_TRUE(device.ok()) << device.status().message();
  std::vector<std::chrono::nanoseconds> turns(3);
  (*device)->run(
      [&](const Team& team) { turns[static_cast<size_t>(team.rank())] = turn_length(); });
  EXPECT_EQ(turns[1], kShortTurn);
  EXPECT_EQ(turns[2], kShortTurn);
}

}  // namespace
}  // namespace forerun
