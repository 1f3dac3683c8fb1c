#include "engine/loop/cancellation_watch.h"

#include <gtest/gtest.h>

#include <chrono>

#include "engine/loop/scheduled_request_rig.h"

namespace forerun::testing {
namespace {

using std::chrono::hours;
using std::chrono::milliseconds;

ReadRequest request_with_deadline(milliseconds deadline) {
  Request request;
  request.prompt_tokens = {1};
  request.deadline = deadline;
  return make_request(std::move(request));
}

TEST(CancellationWatch, LooksWhereThereIsNewsOrSomeTimeHasPassed) {
  const Clock::time_point start{hours(1)};
  CancellationWatch watch;
  EXPECT_TRUE(watch.begin_look(false, start));
  EXPECT_FALSE(watch.begin_look(false, start + milliseconds(99)));
  EXPECT_TRUE(watch.begin_look(true, start + milliseconds(99)));
  EXPECT_FALSE(watch.begin_look(false, start + milliseconds(198)));
  EXPECT_TRUE(watch.begin_look(false, start + milliseconds(199)));
}

TEST(CancellationWatch, LooksAtTheNextDeadline) {
  const ReadRequest early = request_with_deadline(milliseconds(50));
  const ReadRequest late = request_with_deadline(hours(1));
  const Clock::time_point deadline = *early.request->deadline();
  CancellationWatch watch;
  watch.begin_look(true, deadline - milliseconds(50));
  EXPECT_FALSE(watch.begin_look(false, deadline + milliseconds(1)));
  watch.add(*late.request);
  EXPECT_FALSE(watch.begin_look(false, deadline + milliseconds(1)));
  watch.add(*early.request);
  EXPECT_FALSE(watch.begin_look(false, deadline - milliseconds(1)));
  EXPECT_TRUE(watch.begin_look(false, deadline));
  // No remaining request has a deadline.
  EXPECT_FALSE(watch.begin_look(false, deadline + milliseconds(1)));
}

TEST(CancellationWatch, RequestsThatGoOnAreLookedAtAgainAtTheirDeadline) {
  const ReadRequest made = request_with_deadline(milliseconds(50));
  const Clock::time_point deadline = *made.request->deadline();
  CancellationWatch watch;
  ASSERT_TRUE(watch.begin_look(true, deadline - milliseconds(10)));
  EXPECT_FALSE(watch.must_end(*made.request));
  ASSERT_TRUE(watch.begin_look(false, deadline + milliseconds(1)));
  EXPECT_TRUE(watch.must_end(*made.request));
  const CancellationWatch::End end = CancellationWatch::end_of(*made.request);
  EXPECT_EQ(end.reason, FinishReason::kError);
  EXPECT_EQ(end.error.code(), StatusCode::kDeadlineExceeded);
  EXPECT_NE(end.error.message().find("50 ms"), std::string::npos) << end.error.message();
}

TEST(CancellationWatch, ACancelledRequestEndsWithoutAnError) {
  const ReadRequest made = request_with_deadline(milliseconds(50));
  CancellationWatch watch;
  ASSERT_TRUE(watch.begin_look(true, *made.request->deadline() + milliseconds(1)));
  made.reader->cancel();
  EXPECT_TRUE(watch.must_end(*made.request));
  const CancellationWatch::End end = CancellationWatch::end_of(*made.request);
  EXPECT_EQ(end.reason, FinishReason::kCancelled);
  EXPECT_TRUE(end.error.ok());
}

}  // namespace
}  // namespace forerun::testing
