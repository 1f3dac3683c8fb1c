#include "serving/time_histogram.h"

#include <gtest/gtest.h>

namespace forerun::bench {
namespace {

TEST(TimeHistogram, PercentilesAreWithinAHundredth) {
  TimeHistogram times;
  for (int idx = 1; idx <= 10'000; ++idx) times.add(1e-6 * idx);
  EXPECT_EQ(times.count(), 10'000);
  for (const double share : {0.01, 0.5, 0.99}) {
    const double exact = 1e-2 * share;
    EXPECT_GE(times.percentile(share), exact);
    EXPECT_LE(times.percentile(share), 1.01 * exact);
  }
  EXPECT_DOUBLE_EQ(times.percentile(1.0), 1e-2);
  EXPECT_DOUBLE_EQ(times.max_s(), 1e-2);
}

TEST(TimeHistogram, TimesBelowTheFirstStepAndNoTimes) {
  TimeHistogram times;
  EXPECT_EQ(times.percentile(0.5), 0.0);
  times.add(0.0);
  times.add(1e-9);
  EXPECT_LE(times.percentile(0.5), 1e-7);
  EXPECT_EQ(times.count(), 2);
}

}  // namespace
}  // namespace forerun::bench
