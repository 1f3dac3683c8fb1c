#include "engine/loop/preemption.h"

#include <gtest/gtest.h>

#include "engine/loop/scheduled_request_rig.h"

namespace forerun::testing {
namespace {

class PreemptionTest : public ::testing::Test {
 protected:
  ScheduledRequest& run(size_t tokens, int32_t level) {
    ReadRequest made = make_request(tokens, level);
    readers_.push_back(made.reader);
    ScheduledRequest& running = running_.add(running_.next_sequence(), made.scheduled(level));
    running.claim.emplace();
    EXPECT_TRUE(running_.open(running, {}).ok());
    return running;
  }
  // Runs all waiting requests again, with their previous levels and counts.
  void run_waiting() {
    while (!waiting_.empty()) {
      ScheduledRequest& running =
          running_.add(running_.next_sequence(), waiting_.pop(waiting_.highest_priority()));
      running.claim.emplace();
      EXPECT_TRUE(running_.open(running, {}).ok());
    }
  }

  IdleExecutor executor_;
  DecodingBatch batch_{nullptr, true};
  RunningRequests running_{&executor_, &batch_, nullptr, true};
  WaitingQueue waiting_{Clock::duration::zero()};
  Preemption preemption_{&running_, &waiting_, nullptr};
  std::vector<std::shared_ptr<PulledRequest>> readers_;
};

TEST_F(PreemptionTest, AloneNobodyMakesRoom) {
  EXPECT_FALSE(preemption_.make_room(run(10, 0)));
  EXPECT_FALSE(preemption_.memory_is_short());
  EXPECT_EQ(running_.size(), 1u);
}

TEST_F(PreemptionTest, TheLeastLevelThenTheFewestTokensThenTheLatestMakesRoom) {
  const ScheduledRequest& starved = run(5, 1);  // 1
  run(20, 0);                                   // 2
  run(10, 0);                                   // 3
  run(10, 0);                                   // 4
  for (int round = 0; round < 3; ++round) EXPECT_TRUE(preemption_.make_room(starved));
  EXPECT_EQ(executor_.closed, (std::vector<SequenceId>{4, 3, 2}));
  EXPECT_EQ(running_.size(), 1u);
  // The request preempted last returns first.
  EXPECT_EQ(waiting_.pop(0).request->tokens().size(), 20u);
}

TEST_F(PreemptionTest, WhoIsStarvedMayItselfMakeRoom) {
  const ScheduledRequest& starved = run(5, 0);
  run(6, 0);
  EXPECT_TRUE(preemption_.make_room(starved));
  EXPECT_EQ(executor_.closed, (std::vector<SequenceId>{1}));
}

TEST_F(PreemptionTest, MemoryIsShortUntilARequestEnds) {
  const ScheduledRequest& starved = run(5, 0);
  run(6, 0);
  preemption_.make_room(starved);
  EXPECT_TRUE(preemption_.memory_is_short());
  EXPECT_FALSE(preemption_.waits_for_blocks());
  preemption_.note_turn();
  EXPECT_TRUE(preemption_.memory_is_short());
  preemption_.note_end();
  EXPECT_FALSE(preemption_.memory_is_short());
}

TEST_F(PreemptionTest, OnlyALowerLevelGivesWay) {
  run(5, 2);
  run(10, 1);
  EXPECT_FALSE(preemption_.outranks_one(1));
  EXPECT_FALSE(preemption_.give_way(1));
  EXPECT_TRUE(executor_.closed.empty());
  EXPECT_TRUE(preemption_.outranks_one(2));
  EXPECT_TRUE(preemption_.give_way(3));
  EXPECT_EQ(executor_.closed, (std::vector<SequenceId>{2}));
  EXPECT_FALSE(preemption_.memory_is_short());
}

TEST_F(PreemptionTest, BlocksAreWaitedForSomeSteps) {
  run(5, 0);
  EXPECT_FALSE(preemption_.give_way(0));
  EXPECT_FALSE(preemption_.waits_for_blocks());
  EXPECT_TRUE(preemption_.give_way(1));
  for (int step = 0; step < 4; ++step) {
    EXPECT_TRUE(preemption_.waits_for_blocks());
    preemption_.note_turn();
  }
  EXPECT_FALSE(preemption_.waits_for_blocks());
}

TEST_F(PreemptionTest, NobodyGivesWayAgainAndAgain) {
  run(5, 0);
  for (int32_t round = 0; round < Preemption::kMaxFutile; ++round) {
    EXPECT_TRUE(preemption_.give_way(1));
    run_waiting();
  }
  EXPECT_FALSE(preemption_.give_way(1));
  run(50, 0);  // another request runs
  EXPECT_TRUE(preemption_.give_way(1));
  EXPECT_EQ(executor_.closed, (std::vector<SequenceId>{1, 2, 4}));
}

// Tokens that the reader has not received yet are sent before the request restarts.
TEST_F(PreemptionTest, WhoIsPreemptedLosesNoToken) {
  ScheduledRequest& running = run(5, 0);
  StrategyOutput out;
  out.tokens.resize(1);
  out.tokens[0].token = 2;
  ASSERT_FALSE(running.request->accept(out, Clock::now()));
  EXPECT_TRUE(preemption_.give_way(1));
  const auto event = readers_[0]->next();
  ASSERT_TRUE(event);
  EXPECT_EQ(event->tokens, (std::vector<int32_t>{2}));
  EXPECT_EQ(waiting_.pop(0).request->tokens().size(), 6u);
}

}  // namespace
}  // namespace forerun::testing
