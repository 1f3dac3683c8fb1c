#include "engine/loop/waiting_requests.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace forerun {
namespace {

using Requests = WaitingRequests<std::string>;
using std::chrono::seconds;

const Requests::Clock::time_point kStart{seconds(1000)};

// Pops requests until none waits.
std::vector<std::string> drain(Requests& requests, Requests::Clock::time_point now) {
  std::vector<std::string> order;
  while (!requests.empty()) order.push_back(requests.pop(requests.next(now).priority));
  return order;
}

TEST(WaitingRequests, TheHighestPriorityIsFirstThenWhoCameFirst) {
  Requests requests(seconds(10));
  for (const int32_t priority : {0, -1, 2, 7, 2}) {
    requests.push_back(priority, std::to_string(priority), kStart);
  }
  requests.push_front(2, "back", kStart);
  EXPECT_EQ(drain(requests, kStart), (std::vector<std::string>{"7", "back", "2", "2", "0", "-1"}));
}

TEST(WaitingRequests, WaitingRaisesThePriority) {
  Requests requests(seconds(10));
  requests.push_back(0, "old", kStart);
  requests.push_back(2, "new", kStart + seconds(25));
  auto next = requests.next(kStart + seconds(29));  // two levels: the higher priority still wins
  EXPECT_EQ(*next.entry, "new");
  next = requests.next(kStart + seconds(34));  // three levels
  EXPECT_EQ(*next.entry, "old");
  EXPECT_EQ(next.priority, 0);
  EXPECT_EQ(next.level, 3);
  EXPECT_EQ(*requests.most_urgent(kStart + seconds(34)).entry, "new");

  Requests never(seconds(0));
  never.push_back(0, "old", kStart);
  never.push_back(1, "new", kStart);
  EXPECT_EQ(*never.next(kStart + seconds(1'000'000)).entry, "new");
}

TEST(WaitingRequests, LevelsStayInRange) {
  Requests requests(std::chrono::nanoseconds(1));
  requests.push_back(INT32_MAX - 1, "high", kStart);
  EXPECT_EQ(requests.next(kStart + std::chrono::hours(1000)).level, INT32_MAX);
  Requests low(std::chrono::nanoseconds(1));
  low.push_back(INT32_MIN, "low", kStart);
  EXPECT_EQ(low.next(kStart + std::chrono::hours(1000)).level, INT32_MAX);
}

// At any distance between the classes, the lower one is admitted repeatedly, and gets a tenth of
// the tokens if all requests are alike.
TEST(WaitingRequests, EveryClassHasItsShare) {
  Requests requests(seconds(10));
  constexpr int64_t kTokensEach = 100;
  int64_t high_tokens = 0;
  int64_t low_tokens = 0;
  for (int admitted = 0; admitted < 2000; ++admitted) {
    while (requests.empty() || requests.highest_priority() != 1'000'000) {
      requests.push_back(1'000'000, "high", kStart);
    }
    if (admitted == 0) {
      for (int idx = 0; idx < 2000; ++idx) requests.push_back(-1'000'000, "low", kStart);
    }
    const auto next = requests.next(kStart);
    EXPECT_EQ(next.is_owed, next.priority < 0);
    if (next.is_owed) {
      EXPECT_EQ(next.level, 1'000'000);  // it is not preempted for those that it has overtaken
    }
    requests.pop(next.priority);
    requests.note_served(next.priority, kTokensEach);
    (next.priority > 0 ? high_tokens : low_tokens) += kTokensEach;
  }
  const double share =
      static_cast<double>(low_tokens) / static_cast<double>(low_tokens + high_tokens);
  EXPECT_GT(share, 1.0 / 12);
  EXPECT_LT(share, 1.0 / 9);
}

// A single request behind an endless queue is next after 128 tokens of that queue.
TEST(WaitingRequests, ASingleOneIsNextBeforeLong) {
  Requests requests(seconds(0));
  for (int idx = 0; idx < 40; ++idx) requests.push_back(1, "high", kStart);
  requests.push_back(0, "normal", kStart);
  requests.note_served(1, 127);
  EXPECT_EQ(*requests.next(kStart).entry, "high");
  requests.note_served(1, 1);
  EXPECT_EQ(*requests.next(kStart).entry, "normal");
  EXPECT_EQ(*requests.next_by_level(kStart).entry, "high");
}

TEST(WaitingRequests, DropsWhatIsNotKept) {
  Requests requests(seconds(10));
  for (const int32_t priority : {0, 1, 1, 2}) {
    requests.push_back(priority, std::to_string(priority), kStart);
  }
  requests.keep_if([](const std::string& entry) { return entry == "1"; });
  EXPECT_EQ(drain(requests, kStart), (std::vector<std::string>{"1", "1"}));
}

}  // namespace
}  // namespace forerun
