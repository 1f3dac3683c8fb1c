#include "engine/loop/admission_policy.h"

#include <gtest/gtest.h>

#include "engine/loop/scheduled_request_rig.h"
#include "step/step.h"

namespace forerun::testing {
namespace {

class AdmissionPolicyTest : public ::testing::Test {
 protected:
  void wait(size_t tokens, int32_t priority) {
    ReadRequest made = make_request(tokens, priority);
    readers_.push_back(made.reader);
    waiting_.push_back(priority, made.scheduled(priority), kStart);
  }
  // Admits the next request; returns its priority, or -1 if none fits.
  int32_t admit_next() {
    const auto next = policy_.next();
    if (!next) return -1;
    ScheduledRequest& running =
        running_.add(running_.next_sequence(), waiting_.pop(next->priority));
    EXPECT_TRUE(running_.open(running, specs_.spec(running)).ok());
    return next->priority;
  }

  static constexpr Clock::time_point kStart{};
  IdleExecutor executor_;
  DecodingBatch batch_{nullptr, true};
  RunningRequests running_{&executor_, &batch_, nullptr, true};
  WaitingQueue waiting_{Clock::duration::zero()};
  Preemption preemption_{&running_, &waiting_, nullptr};
  SequenceSpecs specs_{false};
  AdmissionPolicy policy_{3, &running_, &preemption_, &waiting_, &specs_};
  std::vector<std::shared_ptr<PulledRequest>> readers_;
};

TEST_F(AdmissionPolicyTest, OnlyAsManyAsThereArePlaces) {
  for (const int32_t priority : {0, 2, 1, 3}) wait(10, priority);
  for (const int32_t priority : {3, 2, 1}) {
    EXPECT_TRUE(policy_.has_place());
    EXPECT_EQ(admit_next(), priority);
  }
  EXPECT_FALSE(policy_.has_place());
  EXPECT_EQ(admit_next(), -1);
  running_.remove(1);
  EXPECT_EQ(admit_next(), 0);
}

// Each admission needs room for the request's text, and a block to grow for each running request.
TEST_F(AdmissionPolicyTest, OnlyWhereTheBlocksAre) {
  executor_.target.total_blocks = 5;
  wait(2 * kKvBlockTokens, 0);
  wait(2 * kKvBlockTokens, 0);
  EXPECT_EQ(admit_next(), 0);
  EXPECT_EQ(admit_next(), -1);
  executor_.target.total_blocks = 6;
  EXPECT_EQ(admit_next(), 0);
}

// A request that is owed its turn but does not fit does not block others.
TEST_F(AdmissionPolicyTest, WhoIsOwedItsTurnOvertakesOnlyIfItFits) {
  executor_.target.total_blocks = 20;
  wait(10, 1);
  ASSERT_EQ(admit_next(), 1);
  wait(10, 0);
  wait(10, 1);
  waiting_.note_served(1, 1000);
  EXPECT_EQ(admit_next(), 0);
  wait(20 * kKvBlockTokens, 0);
  waiting_.note_served(1, 1000);
  EXPECT_TRUE(waiting_.next(kStart).is_owed);
  EXPECT_EQ(admit_next(), 1);
}

// No request is admitted before one has ended, unless it outranks a running one.
TEST_F(AdmissionPolicyTest, WhileMemoryIsShortOnlyWhoOutranksARunningOne) {
  for (const size_t tokens : {10, 20}) wait(tokens, 1);
  ASSERT_EQ(admit_next(), 1);
  ASSERT_EQ(admit_next(), 1);
  ASSERT_TRUE(preemption_.make_room(*running_.find(2)));
  wait(10, 0);
  EXPECT_EQ(admit_next(), -1);
  wait(10, 2);
  EXPECT_EQ(admit_next(), 2);
  EXPECT_EQ(admit_next(), -1);
  preemption_.note_end();
  EXPECT_EQ(admit_next(), 1);
}

// A request that is first only by its age does not block a more urgent one.
TEST_F(AdmissionPolicyTest, WhileMemoryIsShortTheMostUrgentIsAskedToo) {
  WaitingQueue ageing(std::chrono::hours(1));
  Preemption preemption(&running_, &ageing, nullptr);
  AdmissionPolicy policy(4, &running_, &preemption, &ageing, &specs_);
  for (const size_t tokens : {10, 20}) {
    wait(tokens, 1);
    ASSERT_EQ(admit_next(), 1);
  }
  ASSERT_TRUE(preemption.make_room(*running_.find(2)));
  ReadRequest old = make_request(10, 0), urgent = make_request(10, 2);
  ageing.push_back(0, old.scheduled(), Clock::now() - std::chrono::hours(5));
  ageing.push_back(2, urgent.scheduled(), Clock::now());
  ASSERT_EQ(ageing.next_by_level(Clock::now()).priority, 0);
  const auto next = policy.next();
  ASSERT_TRUE(next);
  EXPECT_EQ(next->priority, 2);
}

}  // namespace
}  // namespace forerun::testing
