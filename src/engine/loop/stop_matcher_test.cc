#include "engine/loop/stop_matcher.h"

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
      EXPECT_EQ(matcher.stopped_by(), "three");
    }
  }
}

// These stop strings nearly match all the time: restarting the comparison at every byte would take
// some 10^13 comparisons.
TEST(StopMatcher, TakesTimeByTheTextAlone) {
  constexpr size_t kStopBytes = 60'000;
  std::vector<std::string> stops;
  for (char last = 'b'; last < 'r'; ++last) {
    stops.push_back(std::string(kStopBytes - 1, 'a') + last);
  }
  StopMatcher matcher(stops);
  size_t shown = 0;
  for (size_t idx = 0; idx < 4 * kStopBytes; ++idx) shown += matcher.push("a").size();
  EXPECT_EQ(shown, 3 * kStopBytes + 1);
  EXPECT_EQ(matcher.push("c").size(), 0u);
  EXPECT_TRUE(matcher.stopped());
}

TEST(StopMatcher, ReleasesHeldTextAtTheEnd) {
  StopMatcher matcher({"</s>", ""});
  EXPECT_EQ(matcher.push("a</"), "a");
  EXPECT_EQ(matcher.finish(), "</");
  EXPECT_FALSE(matcher.stopped());
  EXPECT_EQ(matcher.stopped_by(), "");
}

// No stop string ends before a given position, however the text is split and whatever is held back.
TEST(StopMatcher, StopsOnlyBehindAPlace) {
  std::mt19937 random(6);
  int stopped_across = 0;
  for (int round = 0; round < 4000; ++round) {
    std::string text;
    for (int i = 0; i < 20; ++i) text += static_cast<char>('a' + random() % 2);
    std::vector<std::string> stops(1 + random() % 3);
    for (std::string& stop : stops) {
      for (size_t i = 0; i < 1 + random() % 5; ++i) stop += static_cast<char>('a' + random() % 2);
    }
    const size_t place = random() % text.size();
    size_t first = std::string::npos;
    for (const std::string& stop : stops) {
      for (size_t at = 0; at + stop.size() <= text.size(); ++at) {
        if (at + stop.size() <= place || text.compare(at, stop.size(), stop) != 0) continue;
        first = std::min(first, at);
      }
    }
    StopMatcher matcher(stops);
    std::string out;
    for (size_t at = 0; at < text.size(); ++at)
      out += matcher.push(text.substr(at, 1), at >= place);
    out += matcher.finish();
    // One character at a time, the stop string that is complete first is found, which is not always
    // the one that begins first.
    EXPECT_EQ(matcher.stopped(), first != std::string::npos);
    if (first == std::string::npos) {
      EXPECT_EQ(out, text);
    } else {
      EXPECT_EQ(out, text.substr(0, out.size()));
      EXPECT_GE(out.size(), first);
      stopped_across += out.size() < place ? 1 : 0;
      bool is_stop = false;
      for (const std::string& stop : stops) {
        is_stop |= out.size() + stop.size() > place && text.substr(out.size()).starts_with(stop);
      }
      EXPECT_TRUE(is_stop);
    }
  }
  EXPECT_GT(stopped_across, 100);
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
    StopMatcher keeping(stops, /*keep_stop=*/true);
    std::string out;
    std::string kept;
    size_t fed = 0;
    while (fed < text.size() && !matcher.stopped()) {
      const size_t piece = 1 + random() % 3;
      out += matcher.push(text.substr(fed, piece));
      kept += keeping.push(text.substr(fed, piece));
      fed = std::min(text.size(), fed + piece);
    }
    out += matcher.finish();
    kept += keeping.finish();
    size_t length = std::string::npos;
    for (const std::string& stop : stops) {
      first = std::min(first, text.substr(0, fed).find(stop));
    }
    for (const std::string& stop : stops) {
      if (first < fed && text.substr(first).starts_with(stop)) {
        length = std::min(length, stop.size());
      }
    }
    EXPECT_EQ(out, text.substr(0, std::min(first, fed)));
    EXPECT_EQ(matcher.stopped(), first != std::string::npos);
    EXPECT_EQ(keeping.stopped(), matcher.stopped());
    EXPECT_EQ(kept, keeping.stopped() ? text.substr(0, first + length) : text.substr(0, fed));
  }
}

}  // namespace
}  // namespace forerun
