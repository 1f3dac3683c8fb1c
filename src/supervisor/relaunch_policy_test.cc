#include "supervisor/relaunch_policy.h"

#include <gtest/gtest.h>

#include <tuple>

#include "supervisor/mpirun_command.h"

namespace forerun {
namespace {

using std::chrono::milliseconds;
using std::chrono::minutes;
using std::chrono::seconds;
using Kind = LaunchFailure::Kind;
using TimePoint = RelaunchPolicy::TimePoint;

constexpr TimePoint kBegin{std::chrono::hours(1000)};

LaunchFailure of_rank(int32_t rank, Kind kind = Kind::kProcess) {
  return {.status = Status(StatusCode::kInternal, "gone"), .kind = kind, .rank = rank};
}

TEST(RelaunchPolicy, StopsWhereOneHostFailsAgainAndAgain) {
  RelaunchPolicy policy(2, false, {"a", "b", "b"});
  EXPECT_TRUE(policy.note_failure(of_rank(1), kBegin).give_up.ok());
  EXPECT_TRUE(policy.note_failure(of_rank(2), kBegin).give_up.ok());
  const Status stops = policy.note_failure(of_rank(1), kBegin).give_up;
  EXPECT_EQ(stops.code(), StatusCode::kCancelled);  // 503 over HTTP
  EXPECT_NE(stops.message().find("host b has failed 3 times within 10 minutes"), std::string::npos)
      << stops.message();
}

TEST(RelaunchPolicy, NamesNoHostWhereSeveralFail) {
  RelaunchPolicy policy(1, false, {"a", "b"});
  EXPECT_TRUE(policy.note_failure(of_rank(1), kBegin).give_up.ok());
  const Status stops = policy.note_failure(of_rank(0), kBegin).give_up;
  EXPECT_NE(stops.message().find("the launch has failed 2 times"), std::string::npos);
}

TEST(RelaunchPolicy, ProgressBeginsAnew) {
  RelaunchPolicy policy(1, true, {"a", "b"});
  for (int turn = 0; turn < 10; ++turn) {
    const auto decision = policy.note_failure(of_rank(turn % 2), kBegin);
    EXPECT_TRUE(decision.give_up.ok());
    EXPECT_TRUE(policy.with_draft(kBegin));
    EXPECT_EQ(decision.pause.count(), 0);
    policy.note_progress();
  }
}

TEST(RelaunchPolicy, PausesGrowToMinutes) {
  RelaunchPolicy policy(100, false, {"a", "b"});
  const int64_t expected_ms[] = {0,     500,   1000,  2000,   4000,   8000,
                                 16000, 32000, 64000, 120000, 120000, 120000};
  TimePoint now = kBegin;
  for (const int64_t each : expected_ms) {
    const auto pause = policy.note_failure(of_rank(1), now).pause;
    EXPECT_EQ(pause.count(), each);
    now += pause;
  }
}

// The pauses of ten relaunches last for four minutes.
TEST(RelaunchPolicy, TheDefaultBudgetLastsForMinutes) {
  RelaunchPolicy policy(10, false, {"a", "b"});
  TimePoint now = kBegin;
  for (int turn = 0; turn < 10; ++turn) {
    const auto decision = policy.note_failure(of_rank(1), now);
    ASSERT_TRUE(decision.give_up.ok()) << turn;
    now += decision.pause;
  }
  EXPECT_GT(now - kBegin, minutes(4));
  EXPECT_FALSE(policy.note_failure(of_rank(1), now).give_up.ok());
}

TEST(RelaunchPolicy, TenMinutesForgiveAFailure) {
  RelaunchPolicy policy(2, false, {"a", "b"});
  TimePoint now = kBegin;
  for (int turn = 0; turn < 20; ++turn) {  // never three within ten minutes
    EXPECT_TRUE(policy.note_failure(of_rank(1), now).give_up.ok()) << turn;
    now += minutes(5) + seconds(1);
  }
  // Even when failures are forgiven, pauses stay long if no launch starts.
  EXPECT_EQ(policy.note_failure(of_rank(1), now).pause, minutes(2));
  EXPECT_TRUE(policy.note_failure(of_rank(1), now + seconds(1)).give_up.ok() ||
              policy.failures_in_row() > 20);
}

TEST(RelaunchPolicy, HostsThatAreAwayAndRequestsOnTrialCostNothing) {
  RelaunchPolicy policy(0, true, {"a", "b"});
  for (int turn = 0; turn < 50; ++turn) {
    for (const Kind kind : {Kind::kHostAway, Kind::kRequest}) {
      const auto decision = policy.note_failure(of_rank(1, kind), kBegin);
      EXPECT_TRUE(decision.give_up.ok());
      EXPECT_EQ(decision.pause.count(), 0);
    }
  }
  EXPECT_TRUE(policy.with_draft(kBegin));
  EXPECT_FALSE(policy.note_failure(of_rank(1), kBegin).give_up.ok());
}

TEST(RelaunchPolicy, DeathsOfTheCoordinatorAreNotTheDrafts) {
  RelaunchPolicy policy(100, true, {"a", "b"});
  for (int turn = 0; turn < 20; ++turn) {
    policy.note_failure(of_rank(0, turn % 2 == 0 ? Kind::kProcess : Kind::kSilence), kBegin);
    EXPECT_TRUE(policy.with_draft(kBegin));
  }
}

TEST(RelaunchPolicy, ADraftThatFailsIsLeftOutAndComesBack) {
  RelaunchPolicy policy(0, true, {"a", "b"});
  TimePoint now = kBegin;
  const int64_t expected_minutes[] = {5, 10, 20, 40, 60, 60};
  for (const int64_t each : expected_minutes) {
    EXPECT_TRUE(policy.with_draft(now));
    const auto decision = policy.note_failure(of_rank(0, Kind::kDraft), now);
    EXPECT_TRUE(decision.give_up.ok());  // it is not a failure of the launch
    EXPECT_EQ(decision.pause.count(), 0);
    EXPECT_FALSE(policy.with_draft(now));
    policy.note_ready(now);
    const TimePoint due = now + minutes(each);
    EXPECT_FALSE(policy.with_draft(due - milliseconds(1)));
    EXPECT_FALSE(policy.wants_draft_back(due - milliseconds(1), true));
    EXPECT_TRUE(policy.wants_draft_back(due, true));
    EXPECT_FALSE(policy.wants_draft_back(due, false));
    EXPECT_FALSE(policy.wants_draft_back(due + minutes(59), false));
    EXPECT_TRUE(policy.wants_draft_back(due + minutes(60), false));
    now = due;
  }
  // A draft that has worked for long starts again with the shortest wait.
  EXPECT_TRUE(policy.with_draft(now));
  now += std::chrono::hours(2);
  policy.note_failure(of_rank(0, Kind::kDraft), now);
  EXPECT_TRUE(policy.wants_draft_back(now + minutes(5), true));
}

TEST(RelaunchPolicy, RefusalsAreTheDraftsWhereItComesUpWithoutIt) {
  RelaunchPolicy policy(100, true, {"a", "b"});
  policy.note_failure(of_rank(0, Kind::kRefusal), kBegin);
  EXPECT_TRUE(policy.with_draft(kBegin));
  policy.note_failure(of_rank(0, Kind::kRefusal), kBegin);
  EXPECT_FALSE(policy.with_draft(kBegin));  // one start shows that
  policy.note_ready(kBegin);
  EXPECT_FALSE(policy.with_draft(kBegin + minutes(4)));
  EXPECT_TRUE(policy.with_draft(kBegin + minutes(5)));
  // Now one refusal is enough, and the draft stays out twice as long.
  policy.note_failure(of_rank(0, Kind::kRefusal), kBegin + minutes(5));
  EXPECT_FALSE(policy.with_draft(kBegin + minutes(5)));
  policy.note_ready(kBegin + minutes(5));
  EXPECT_FALSE(policy.with_draft(kBegin + minutes(14)));
  EXPECT_TRUE(policy.with_draft(kBegin + minutes(15)));
}

TEST(RelaunchPolicy, RefusalsWithoutTheDraftAreNotItsFault) {
  RelaunchPolicy policy(100, true, {"a", "b"});
  policy.note_failure(of_rank(0, Kind::kRefusal), kBegin);
  policy.note_failure(of_rank(0, Kind::kRefusal), kBegin);
  EXPECT_FALSE(policy.with_draft(kBegin));
  for (int turn = 0; turn < 5; ++turn) {  // it is asked for once
    policy.note_failure(of_rank(0, Kind::kRefusal), kBegin);
    EXPECT_TRUE(policy.with_draft(kBegin));
  }
  policy.note_ready(kBegin);
  EXPECT_TRUE(policy.with_draft(kBegin));
}

TEST(MpirunCommand, HasAProcessAHostInTheirOrder) {
  MpirunOptions options;
  options.hosts = {"one", "two"};
  options.process = {"/bin/forerun", "serve-launch"};
  const std::vector<std::string> command = mpirun_command(options);
  std::string text;
  for (const std::string& part : command) text += part + " ";
  EXPECT_NE(text.find("-n 1 --host one /bin/forerun serve-launch : -n 1 --host two /bin/forerun"),
            std::string::npos)
      << text;
  EXPECT_TRUE(check_network("10.0.0.0/24").ok());
  EXPECT_FALSE(check_network("-oProxyCommand").ok());
  EXPECT_FALSE(check_network("lo;id").ok());
}

}  // namespace
}  // namespace forerun
