#include "base/later.h"

#include <gtest/gtest.h>

#include <chrono>

namespace forerun {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;
using Clock = std::chrono::steady_clock;

TEST(Later, IsTheSumWhereThereIsOne) {
  const Clock::time_point now = Clock::now();
  EXPECT_EQ(later(now, milliseconds(5)), now + milliseconds(5));
  EXPECT_EQ(later(now, microseconds(7)), now + microseconds(7));
  EXPECT_EQ(later(now, std::chrono::hours(24 * 365 * 100)),
            now + std::chrono::hours(24 * 365 * 100));
}

TEST(Later, EndsWithTheClock) {
  const Clock::time_point now = Clock::now();
  EXPECT_EQ(later(now, milliseconds::max()), Clock::time_point::max());
  EXPECT_EQ(later(now, milliseconds(INT64_MAX / 1'000'000)), Clock::time_point::max());
  EXPECT_EQ(later(now, std::chrono::hours::max()), Clock::time_point::max());
  EXPECT_EQ(later(now, Clock::duration::max()), Clock::time_point::max());
  EXPECT_EQ(later(Clock::time_point::max(), milliseconds(1)), Clock::time_point::max());
}

TEST(Later, NeverGoesBack) {
  const Clock::time_point now = Clock::now();
  EXPECT_EQ(later(now, milliseconds(-1)), now);
  EXPECT_EQ(later(now, milliseconds::min()), now);
}

}  // namespace
}  // namespace forerun
