#include "supervisor/relaunch_policy.h"

#include <gtest/gtest.h>

#include "supervisor/launch_folder.h"
#include "supervisor/mpirun_command.h"

namespace forerun {
namespace {

LaunchFailure of_rank(int32_t rank) {
  return {.status = Status(StatusCode::kInternal, "gone"), .rank = rank};
}

TEST(RankOfMessage, IsTheOneThatItComesDownTo) {
  EXPECT_EQ(rank_of_message("rank 2 (stage 2 of 3): rank 1 (stage 1 of 3): silent", 4), 1);
  EXPECT_EQ(rank_of_message("process rank 3 with PID 0 exited", 4), 3);
  EXPECT_EQ(rank_of_message("rank 9 is none of 4", 4), std::nullopt);
  EXPECT_EQ(rank_of_message("rank and file, rank -1, rank ", 4), std::nullopt);
}

TEST(RelaunchPolicy, StopsWhereOneHostFailsAgainAndAgain) {
  RelaunchPolicy policy(2, false, {"a", "b", "b"});
  EXPECT_TRUE(policy.note_failure(of_rank(1)).give_up.ok());
  EXPECT_TRUE(policy.note_failure(of_rank(2)).give_up.ok());
  const Status stops = policy.note_failure(of_rank(1)).give_up;
  EXPECT_NE(stops.message().find("host b has failed 3 times"), std::string::npos)
      << stops.message();
}

TEST(RelaunchPolicy, NamesNoHostWhereSeveralFail) {
  RelaunchPolicy policy(1, false, {"a", "b"});
  EXPECT_TRUE(policy.note_failure(of_rank(1)).give_up.ok());
  const Status stops = policy.note_failure(of_rank(0)).give_up;
  EXPECT_NE(stops.message().find("the launch has failed 2 times"), std::string::npos);
}

TEST(RelaunchPolicy, ProgressBeginsAnew) {
  RelaunchPolicy policy(1, true, {"a", "b"});
  for (int turn = 0; turn < 10; ++turn) {
    const auto decision = policy.note_failure(of_rank(turn % 2));
    EXPECT_TRUE(decision.give_up.ok());
    EXPECT_FALSE(decision.drop_draft);
    EXPECT_EQ(decision.pause.count(), 0);
    policy.note_progress();
  }
}

TEST(RelaunchPolicy, PausesGrow) {
  RelaunchPolicy policy(100, false, {"a", "b"});
  auto before = policy.note_failure(of_rank(1)).pause;
  EXPECT_EQ(before.count(), 0);
  for (int turn = 0; turn < 20; ++turn) {
    const auto pause = policy.note_failure(of_rank(1)).pause;
    EXPECT_GE(pause, before);
    before = pause;
  }
  EXPECT_LE(before, std::chrono::seconds(5));
}

TEST(RelaunchPolicy, LeavesTheDraftOut) {
  RelaunchPolicy at_once(3, true, {"a", "b"});
  LaunchFailure of_draft = of_rank(0);
  of_draft.of_draft = true;
  EXPECT_TRUE(at_once.note_failure(of_draft).drop_draft);
  EXPECT_FALSE(at_once.note_failure(of_draft).drop_draft);  // there is none any more

  RelaunchPolicy in_vain(3, true, {"a", "b"});
  EXPECT_FALSE(in_vain.note_failure(of_rank(0)).drop_draft);
  EXPECT_FALSE(in_vain.note_failure(of_rank(1)).drop_draft);
  EXPECT_TRUE(in_vain.note_failure(of_rank(0)).drop_draft);
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

TEST(LaunchFolder, GoesWithItsObject) {
  std::filesystem::path session;
  {
    auto folder = LaunchFolder::make();
    ASSERT_TRUE(folder.ok());
    session = folder->session();
    EXPECT_TRUE(LaunchFolder::is_name(folder->name()));
    EXPECT_TRUE(std::filesystem::exists(session));
    std::filesystem::create_directories(session / "deep" / "er");
  }
  EXPECT_FALSE(std::filesystem::exists(session));
  EXPECT_FALSE(LaunchFolder::is_name("forerun-../../etc"));
  EXPECT_FALSE(LaunchFolder::is_name("other"));
}

}  // namespace
}  // namespace forerun
