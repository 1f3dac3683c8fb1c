#include "engine/stop_matcher.h"

#include <gtest/gtest.h>

#include <random>

namespace forerun {
namespace {

TEST(StopMatcher, CutsBeforeTheStopHoweverTheTextArrives) {
  const std::string text = "one two thre three four";
  for (size_t first = 0; first <= text.size(); ++first) {
    for (size_t second = first; second <= text.size(); ++second) {
      StopMatcher matcher({"three", "fourth"});
      std::string out = matcher.push(text.substr(0, first));
      out += matcher.push(text.substr(first, second - first));
      out += matcher.push(text.substr(second));
      out += matcher.finish();
      EXPECT_EQ(out, "one two thre ");
      EXPECT_TRUE(matcher.stopped());
    }
  }
}

TEST(StopMatcher, ReleasesHeldTextAtTheEnd) {
  StopMatcher matcher({"</s>", ""});
  EXPECT_EQ(matcher.push("a</"), "a");
  EXPECT_EQ(matcher.finish(), "</");
  EXPECT_FALSE(matcher.stopped());
}

TEST(StopMatcher, EqualsASearchOfTheWholeText) {
  std::mt19937 random(5);
  for (int round = 0; round < 2000; ++round) {
    std::string text;
    for (int i = 0; i < 20; ++i) text += static_cast<char>('a' + random() % 2);
    std::vector<std::string> stops(1 + random() % 2);
    for (std::string& stop : stops) {
      for (size_t i = 0; i < 2 + random() % 4; ++i) stop += static_cast<char>('a' + random() % 2);
    }
    size_t first = std::string::npos;
    StopMatcher matcher(stops);
    std::string out;
    size_t fed = 0;
    while (fed < text.size() && !matcher.stopped()) {
      const size_t piece = 1 + random() % 3;
      out += matcher.push(text.substr(fed, piece));
      fed = std::min(text.size(), fed + piece);
    }
    out += matcher.finish();
    for (const std::string& stop : stops) {
      first = std::min(first, text.substr(0, fed).find(stop));
    }
    EXPECT_EQ(out, text.substr(0, std::min(first, fed)));
    EXPECT_EQ(matcher.stopped(), first != std::string::npos);
  }
}

}  // namespace
}  // namespace forerun
