#include "runner/arrivals.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

namespace forerun::bench {
namespace {

Arrivals parsed(const std::string& text) {
  const Result<Arrivals> arrivals = parse_arrivals(text);
  EXPECT_TRUE(arrivals.ok()) << arrivals.status().message();
  return arrivals.ok() ? *arrivals : Arrivals();
}

TEST(Arrivals, AllComeAtOnce) {
  EXPECT_EQ(arrival_seconds(parsed("all"), 3, 7), (std::vector<double>{0, 0, 0}));
  EXPECT_TRUE(arrival_seconds(parsed("all"), 0, 7).empty());
}

TEST(Arrivals, EveryKeepsItsGap) {
  EXPECT_EQ(arrival_seconds(parsed("every:0.25"), 4, 7), (std::vector<double>{0, 0.25, 0.5, 0.75}));
}

TEST(Arrivals, PoissonGapsAreExponential) {
  const Arrivals arrivals = parsed("poisson:4");
  EXPECT_DOUBLE_EQ(arrivals.mean_gap_s, 0.25);
  constexpr int kRequests = 20'001;
  const std::vector<double> seconds = arrival_seconds(arrivals, kRequests, 1);
  ASSERT_EQ(seconds.size(), kRequests);
  EXPECT_EQ(seconds.front(), 0.0);
  std::vector<double> gaps;
  for (size_t index = 1; index < seconds.size(); ++index) {
    gaps.push_back(seconds[index] - seconds[index - 1]);
    ASSERT_GT(gaps.back(), 0.0);
  }
  // The standard error of the mean is 0.25 / sqrt(20,000) = 0.0018. Half of exponential gaps are
  // below mean x ln 2; of even gaps, none or all would be.
  EXPECT_NEAR(seconds.back() / (kRequests - 1), 0.25, 4 * 0.0018);
  const auto below = std::count_if(gaps.begin(), gaps.end(),
                                   [](double gap) { return gap < 0.25 * std::log(2.0); });
  EXPECT_NEAR(static_cast<double>(below) / static_cast<double>(gaps.size()), 0.5, 0.015);
}

TEST(Arrivals, TheSeedDecides) {
  const Arrivals arrivals = parsed("poisson:1e3");
  const std::vector<double> some = arrival_seconds(arrivals, 50, 3);
  std::vector<double> more = arrival_seconds(arrivals, 80, 3);
  more.resize(50);
  EXPECT_EQ(some, more);
  EXPECT_NE(some, arrival_seconds(arrivals, 50, 4));
  EXPECT_NE(some, arrival_seconds(arrivals, 50, 3 + (uint64_t{1} << 40)));
}

TEST(Arrivals, OtherTextIsRefusedByName) {
  for (const char* text :
       {"", "none", "ALL", "all:1", "every", "every:", "every:0", "every:-1", "every:inf",
        "every:1s", "poisson:", "poisson:0", "poisson:-1", "poisson:nan", "poisson:1e-320",
        "poisson:1 ", "poisson: 1", "poisson:0x1"}) {
    const Result<Arrivals> arrivals = parse_arrivals(text);
    ASSERT_FALSE(arrivals.ok()) << text;
    EXPECT_EQ(arrivals.status().code(), StatusCode::kInvalidArgument);
    EXPECT_NE(arrivals.status().message().find("'" + std::string(text) + "'"), std::string::npos);
    EXPECT_NE(arrivals.status().message().find("poisson:REQUESTS_PER_SECOND"), std::string::npos);
  }
}

}  // namespace
}  // namespace forerun::bench
