#include "engine/loop/submissions.h"

#include <gtest/gtest.h>

#include <thread>

#include "engine/loop/scheduled_request_rig.h"

namespace forerun::testing {
namespace {

TEST(Submissions, AreTakenOnceInTheOrderInWhichTheyCame) {
  Submissions submissions;
  for (const size_t tokens : {3, 1, 2}) {
    submissions.submit(std::move(make_request(tokens).request));
  }
  std::vector<size_t> tokens;
  for (const auto& request : submissions.take()) tokens.push_back(request->tokens().size());
  EXPECT_EQ(tokens, (std::vector<size_t>{3, 1, 2}));
  EXPECT_TRUE(submissions.take().empty());
}

TEST(Submissions, WakeTheLoop) {
  Submissions submissions;
  EXPECT_FALSE(submissions.waker()->take_news());
  std::thread other([&] { submissions.submit(std::move(make_request(1).request)); });
  submissions.waker()->wait();
  EXPECT_TRUE(submissions.waker()->take_news());
  EXPECT_EQ(submissions.take().size(), 1u);
  EXPECT_FALSE(submissions.is_stopping());
  other.join();
}

TEST(Submissions, StoppingWakesTheLoop) {
  Submissions submissions;
  std::thread other([&] { submissions.stop(); });
  submissions.waker()->wait();
  EXPECT_TRUE(submissions.is_stopping());
  other.join();
}

}  // namespace
}  // namespace forerun::testing
