// How a supervised engine decides when its launch fails (fault_launch.cc): whose fault it is, what
// becomes of the draft, and how requests wait for hosts that are away.
#include <gtest/gtest.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "supervisor/supervised_engine.h"
#include "supervisor/supervised_rig.h"

namespace forerun::testing {
namespace {

using Clock = std::chrono::steady_clock;

class Relaunch : public Supervised {
 protected:
  // Hosts answer where a file of their name is in the folder.
  SupervisorOptions asking() const {
    SupervisorOptions with = options();
    with.relaunches = 0;
    with.first_question_pause = with.longest_question_pause = milliseconds(20);
    with.ask = [folder = folder_.path().string()](const std::string& host, const std::string&) {
      return std::vector<std::string>{"test", "-e", folder + "/" + host};
    };
    return with;
  }
  void let_answer(const std::string& host) { std::ofstream(folder_.path() / host) << "here"; }

  static bool has_ended_requests(const Engine& engine, int64_t count) {
    const auto deadline = Clock::now() + std::chrono::seconds(20);
    while (engine.load().ended_requests != count && Clock::now() < deadline) {
      std::this_thread::sleep_for(milliseconds(5));
    }
    return engine.load().ended_requests == count;
  }
  static bool comes_to(const Engine& engine, EngineCondition condition) {
    const auto deadline = Clock::now() + std::chrono::seconds(60);
    while (engine.load().condition != condition && Clock::now() < deadline) {
      std::this_thread::sleep_for(milliseconds(5));
    }
    return engine.load().condition == condition;
  }
};

TEST_F(Relaunch, ARequestsOwnFaultIsItsOwn) {
  write_faults({"invalid 3 draft, sequence 1: rank 0: its logits are not finite"});
  const auto engine = create();
  ASSERT_NE(engine, nullptr);
  EXPECT_EQ(complete(*engine, request(7)).error.code(), StatusCode::kInvalidArgument);
  expect_same(complete(*engine, request(7)), alone(request(7)));
  EXPECT_EQ(launches().size(), 1u);
}

// Messages that begin like a draft's error, or name ranks.
TEST_F(Relaunch, WhatAMessageSaysDecidesNothing) {
  write_faults({"error 3 draft: rank 0: cuda:0 is gone", "fail 3 1 draft: rank 0: gone",
                "fail 3 1 draft: rank 0: gone"});
  const auto engine = create();
  ASSERT_NE(engine, nullptr);
  expect_same(complete(*engine, request(7)), alone(request(7)));
  EXPECT_EQ(launches(" draft").size(), 4u);
}

TEST_F(Relaunch, TheDraftsFailureLeavesItOut) {
  write_faults({"draft 3 cuda:0 is gone"});
  const auto engine = create();
  ASSERT_NE(engine, nullptr);
  expect_same(complete(*engine, request(7)), alone(request(7)));
  EXPECT_EQ(launches(" draft").size(), 1u);
  EXPECT_EQ(launches(" plain").size(), 1u);
  const Output later = complete(*engine, request(8));
  EXPECT_EQ(later.stats.strategy, "autoregressive");
  expect_same(later, alone(request(8)));
  Request drafting = request(9);
  drafting.speculation = SpeculationOptions{.strategy = "serial_tree", .source = "model"};
  expect_same(complete(*engine, drafting), alone(request(9)));
}

TEST_F(Relaunch, ADraftThatWasLeftOutComesBack) {
  write_faults({"draft 3 cuda:0 is gone", "-", "draft 3 cuda:0 is gone"});
  SupervisorOptions soon = options();
  soon.times.draft_after = milliseconds(300);
  soon.relaunches = 0;
  const auto engine = create(soon);
  ASSERT_NE(engine, nullptr);
  for (const size_t starts : {3u, 5u}) {
    expect_same(complete(*engine, request(7)), alone(request(7)));
    wait_for_launches(starts);
    EXPECT_EQ(launches(" plain").size(), starts / 2);
  }
  const Output later = complete(*engine, request(8));
  EXPECT_NE(later.stats.strategy, "autoregressive");
  expect_same(later, alone(request(8)));
}

TEST_F(Relaunch, TotalsCountAllLaunches) {
  const auto engine = create();
  ASSERT_NE(engine, nullptr);
  EngineLoad sums;
  int64_t steps = 0;
  for (const int64_t launch : {1, 2, 3}) {
    ASSERT_TRUE(complete(*engine, request(7)).error.ok());
    ASSERT_TRUE(has_ended_requests(*engine, launch));
    const EngineLoad load = engine->load();
    EXPECT_EQ(load.output_tokens, 48 * launch);
    EXPECT_GT(load.prompt_tokens, sums.prompt_tokens);
    ASSERT_EQ(load.strategies.size(), 1u);
    EXPECT_EQ(load.strategies[0].output_tokens, 48 * launch);
    EXPECT_GT(engine->emulation().steps, steps);
    sums = load;
    steps = engine->emulation().steps;
    kill(launches().back(), SIGKILL);
    wait_for_launches(static_cast<size_t>(launch) + 1);
    // Also while there is no launch, and before the next one has served a request.
    EXPECT_EQ(engine->load().output_tokens, sums.output_tokens);
    EXPECT_EQ(engine->load().ended_requests, launch);
  }
}

TEST_F(Relaunch, DeathsOfTheCoordinatorKeepTheDraft) {
  write_faults({"fail 0 0 rank 0: gone", "die 0", "fail 0 0 rank 0: gone"});
  const auto engine = create();
  ASSERT_NE(engine, nullptr);
  expect_same(complete(*engine, request(7)), alone(request(7)));
  EXPECT_EQ(launches(" draft").size(), 4u);
}

TEST_F(Relaunch, ADraftThatItIsRefusedWithIsLeftOut) {
  write_faults({"die 1", "refuse_draft 0 no room", "refuse_draft 0 no room", "-"});
  const auto engine = create();
  ASSERT_NE(engine, nullptr);
  expect_same(complete(*engine, request(7)), alone(request(7)));
  EXPECT_EQ(launches(" draft").size(), 3u);
  EXPECT_EQ(launches(" plain").size(), 1u);
}

TEST_F(Relaunch, WaitsForAHostThatIsAway) {
  write_faults({"die 3"});
  const auto engine = create(asking());
  ASSERT_NE(engine, nullptr);
  EXPECT_EQ(engine->load().condition, EngineCondition::kServing);
  const auto stream = engine->submit(request(7));
  ASSERT_TRUE(stream.ok());
  let_answer("front");
  ASSERT_TRUE(comes_to(*engine, EngineCondition::kAway));
  Request hurried = request(8);
  hurried.deadline = milliseconds(100);
  const Output late = complete(*engine, hurried);
  EXPECT_EQ(late.error.code(), StatusCode::kDeadlineExceeded);
  EXPECT_NE(late.error.message().find("host back does not answer"), std::string::npos)
      << late.error.message();
  EXPECT_NE(engine->load().condition_reason.find("host back does not answer"), std::string::npos);
  EXPECT_EQ(launches().size(), 1u);  // none is tried in vain
  let_answer("back");
  expect_same(drain(**stream), alone(request(7)));
  EXPECT_EQ(engine->load().condition, EngineCondition::kServing);
  EXPECT_EQ(launches().size(), 2u);
}

TEST_F(Relaunch, RequestsWithoutADeadlineWaitUpToALimit) {
  write_faults({"die 3"});
  SupervisorOptions with = asking();
  with.longest_wait = milliseconds(2000);  // a busy machine starts a launch in more than one second
  const auto engine = create(with);
  ASSERT_NE(engine, nullptr);
  const Output first = complete(*engine, request(7));
  EXPECT_EQ(first.error.code(), StatusCode::kCancelled);
  EXPECT_NE(first.error.message().find("hosts front, back do not answer"), std::string::npos)
      << first.error.message();
  // A request that comes later has as much time of its own.
  const Clock::time_point begun = Clock::now();
  EXPECT_EQ(complete(*engine, request(8)).error.code(), StatusCode::kCancelled);
  EXPECT_GE(Clock::now() - begun, with.longest_wait);
  let_answer("front");
  let_answer("back");
  ASSERT_TRUE(comes_to(*engine, EngineCondition::kServing));
  expect_same(complete(*engine, request(9)), alone(request(9)));
}

TEST_F(Relaunch, StopsWhileAHostIsAway) {
  write_faults({"die 1"});
  auto engine = create(asking());
  ASSERT_NE(engine, nullptr);
  const auto stream = engine->submit(request(7));
  ASSERT_TRUE(stream.ok());
  ASSERT_TRUE(comes_to(*engine, EngineCondition::kAway));
  engine.reset();
  EXPECT_EQ(drain(**stream).reason, FinishReason::kCancelled);
}

TEST_F(Relaunch, ALaunchThatStallsDoesNotKeepRequestsBeyondTheirDeadline) {
  write_faults({"deaf 0"});
  const auto engine = create();
  ASSERT_NE(engine, nullptr);
  Request hurried = request(7);
  hurried.deadline = milliseconds(200);
  const Output late = complete(*engine, hurried);
  EXPECT_EQ(late.error.code(), StatusCode::kDeadlineExceeded);
  EXPECT_NE(late.error.message().find("stalled"), std::string::npos) << late.error.message();
  EXPECT_EQ(launches().size(), 1u);
}

TEST_F(Relaunch, AStartHasTheTimeThatItIsGiven) {
  SupervisorOptions hanging = asking();
  hanging.start_timeout = milliseconds(3000);
  hanging.command = [](const std::string&) { return std::vector<std::string>{"sleep", "60"}; };
  let_answer("front");
  const Clock::time_point begun = Clock::now();
  const auto engine = create_supervised_engine(hanging);
  EXPECT_EQ(engine.status().code(), StatusCode::kDeadlineExceeded);
  EXPECT_EQ(engine.status().message(),
            "the launch has not come up within 3 s: host back does not answer");
  EXPECT_GE(Clock::now() - begun, hanging.start_timeout);
}

}  // namespace
}  // namespace forerun::testing
