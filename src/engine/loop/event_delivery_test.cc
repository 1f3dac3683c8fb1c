#include "engine/loop/event_delivery.h"

#include <gtest/gtest.h>

#include "engine/loop/scheduled_request_rig.h"

namespace forerun::testing {
namespace {

class EventDeliveryTest : public ::testing::Test {
 protected:
  // Runs a request and returns its reader.
  std::shared_ptr<PulledRequest> run() {
    ReadRequest made = make_request(5);
    ScheduledRequest& running = running_.add(running_.next_sequence(), made.scheduled());
    running.claim.emplace();
    EXPECT_TRUE(running_.open(running, {}).ok());
    return made.reader;
  }
  void turn(SequenceId sequence, std::vector<int32_t> tokens) {
    StrategyOutput out;
    for (const int32_t token : tokens) out.tokens.emplace_back().token = token;
    EXPECT_FALSE(running_.find(sequence)->request->accept(out, Clock::now()));
    events_.note_turn(sequence);
  }
  static std::optional<Event> poll(PulledRequest& reader) {
    return reader.next_for(std::chrono::milliseconds(0));
  }

  IdleExecutor executor_;
  DecodingBatch batch_{nullptr, true};
  RunningRequests running_{&executor_, &batch_, nullptr, true};
  EventDelivery events_{nullptr};
};

TEST_F(EventDeliveryTest, ReadersAreToldWhenItIsDelivered) {
  const auto first = run();
  const auto second = run();
  turn(1, {1, 2});
  turn(1, {3});
  EXPECT_FALSE(poll(*first));
  events_.deliver(running_);
  const auto event = poll(*first);
  ASSERT_TRUE(event);
  EXPECT_EQ(event->tokens, (std::vector<int32_t>{1, 2, 3}));
  EXPECT_EQ(event->text, "bcd");
  EXPECT_FALSE(event->finished);
  EXPECT_FALSE(poll(*first));
  EXPECT_FALSE(poll(*second));
}

TEST_F(EventDeliveryTest, TheEndComesLastAndBringsWhatWasLeft) {
  const auto reader = run();
  turn(1, {1});
  events_.note_end({running_.remove(1), FinishReason::kCancelled, Status()});
  EXPECT_FALSE(poll(*reader));
  events_.deliver(running_);
  const auto event = poll(*reader);
  ASSERT_TRUE(event);
  EXPECT_EQ(event->tokens, (std::vector<int32_t>{1}));
  EXPECT_TRUE(event->finished);
  EXPECT_EQ(event->reason, FinishReason::kCancelled);
}

TEST_F(EventDeliveryTest, AnErrorIsPassedOn) {
  const auto reader = run();
  events_.note_end(
      {running_.remove(1), FinishReason::kError, Status(StatusCode::kInternal, "a row is faulty")});
  events_.deliver(running_);
  const auto event = poll(*reader);
  ASSERT_TRUE(event);
  EXPECT_EQ(event->reason, FinishReason::kError);
  EXPECT_EQ(event->error.message(), "a row is faulty");
}

TEST_F(EventDeliveryTest, NothingIsDroppedThatWasSent) {
  const auto reader = run();
  turn(1, {1});
  events_.deliver(running_);
  events_.drop_unsent(running_);
  EXPECT_EQ(running_.size(), 1u);
  EXPECT_TRUE(executor_.closed.empty());
}

}  // namespace
}  // namespace forerun::testing
