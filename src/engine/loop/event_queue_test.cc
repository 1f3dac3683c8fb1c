#include "engine/loop/event_queue.h"

#include <gtest/gtest.h>
#include <poll.h>

#include "engine/loop/request_handles.h"
#include "strategies/strategy_table.h"

namespace forerun {
namespace {

Event text_event(const std::string& text, std::vector<int32_t> tokens) {
  Event event;
  event.text = text;
  event.drafted.resize(tokens.size(), true);
  event.tokens = std::move(tokens);
  return event;
}

Event last_event(FinishReason reason) {
  Event event;
  event.finished = true;
  event.reason = reason;
  event.stats.output_tokens = 3;
  return event;
}

class EventQueueTest : public ::testing::Test {
 protected:
  EventQueueTest() : completions_(std::move(CompletionQueue::create()).value()) {}

  std::shared_ptr<EventStream> open(uint64_t tag) {
    return std::make_shared<EventStream>(
        RequestChannel::open(completions_->events(), tag, /*num_samples=*/1, {}), 0);
  }
  bool readable() const {
    pollfd descriptor{completions_->fd(), POLLIN, 0};
    return ::poll(&descriptor, 1, 0) == 1;
  }

  std::unique_ptr<CompletionQueue> completions_;
};

TEST_F(EventQueueTest, WhatIsUnreadIsOneEventARequest) {
  const auto stream = open(7);
  Event first = text_event("ab", {1, 2});
  first.time_s = 0.25;
  Event second = text_event("c", {3});
  second.time_s = 0.5;
  stream->push(std::move(first));
  stream->push(std::move(second));
  stream->push(last_event(FinishReason::kStop));
  const auto completion = completions_->poll();
  ASSERT_TRUE(completion);
  EXPECT_EQ(completion->tag, 7u);
  EXPECT_EQ(completion->event.time_s, 0.5);
  EXPECT_EQ(completion->event.text, "abc");
  EXPECT_EQ(completion->event.tokens, (std::vector<int32_t>{1, 2, 3}));
  EXPECT_EQ(completion->event.drafted.size(), 3u);
  EXPECT_TRUE(completion->event.finished);
  EXPECT_EQ(completion->event.reason, FinishReason::kStop);
  EXPECT_EQ(completion->event.stats.output_tokens, 3);
  EXPECT_FALSE(completions_->poll());
}

TEST_F(EventQueueTest, WhoHasWaitedLongestComesFirst) {
  const auto busy = open(1);
  const auto quiet = open(2);
  busy->push(text_event("a", {1}));
  quiet->push(text_event("x", {2}));
  busy->push(text_event("b", {3}));
  EXPECT_EQ(completions_->poll()->event.text, "ab");
  busy->push(text_event("c", {4}));
  EXPECT_EQ(completions_->poll()->tag, 2u);
  EXPECT_EQ(completions_->poll()->event.text, "c");
}

TEST_F(EventQueueTest, TheDescriptorIsReadableWhileSomethingIsThere) {
  const auto first = open(1);
  const auto second = open(2);
  EXPECT_FALSE(readable());
  first->push(text_event("a", {1}));
  second->push(text_event("b", {1}));
  EXPECT_TRUE(readable());
  completions_->poll();
  EXPECT_TRUE(readable());
  completions_->poll();
  EXPECT_FALSE(readable());
  second->push(text_event("c", {1}));
  EXPECT_TRUE(readable());
  EXPECT_EQ(completions_->next()->event.text, "c");
  EXPECT_FALSE(readable());
}

TEST_F(EventQueueTest, NothingIsWaitedForWhereNothingCanCome) {
  EXPECT_FALSE(completions_->next());
  const auto stream = open(1);
  EXPECT_EQ(completions_->outstanding(), 1);
  EXPECT_FALSE(completions_->next_for(std::chrono::milliseconds(1)));
  stream->push(last_event(FinishReason::kLength));
  EXPECT_EQ(completions_->outstanding(), 1) << "its last event is unread";
  EXPECT_TRUE(completions_->next());
  EXPECT_EQ(completions_->outstanding(), 0);
  EXPECT_FALSE(completions_->next());
}

TEST_F(EventQueueTest, TheLastSampleToFinishHasTheLastEvent) {
  const auto channel = RequestChannel::open(completions_->events(), 9, /*num_samples=*/2, {});
  const auto first = std::make_shared<EventStream>(channel, 0);
  const auto second = std::make_shared<EventStream>(channel, 1);
  second->push(last_event(FinishReason::kStop));
  first->push(text_event("a", {1}));
  first->push(last_event(FinishReason::kLength));
  Event event = completions_->poll()->event;
  EXPECT_EQ(event.sample_idx, 1);
  EXPECT_TRUE(event.finished);
  EXPECT_FALSE(event.last);
  EXPECT_EQ(completions_->outstanding(), 1);
  event = completions_->poll()->event;
  EXPECT_EQ(event.sample_idx, 0);
  EXPECT_EQ(event.text, "a");
  EXPECT_TRUE(event.last);
  EXPECT_EQ(completions_->outstanding(), 0);
}

TEST_F(EventQueueTest, WhereThereIsNoMemoryTheEndIsToldNevertheless) {
  const auto stream = open(3);
  stream->push(text_event("a", {1}));
  stream->push_out_of_memory();
  const Event event = completions_->poll()->event;
  EXPECT_EQ(event.text, "a");
  EXPECT_TRUE(event.last);
  EXPECT_EQ(event.reason, FinishReason::kError);
  EXPECT_EQ(event.error.code(), StatusCode::kResourceExhausted);
}

TEST_F(EventQueueTest, AQueueThatIsGoneCancelsAndTakesNothing) {
  const auto stream = open(1);
  const auto other = open(2);
  stream->push(text_event("a", {1}));
  other->push(text_event("a", {1}));
  EXPECT_FALSE(stream->cancelled());
  const std::weak_ptr<EventQueue> events = completions_->events();
  completions_.reset();
  EXPECT_TRUE(stream->cancelled());
  stream->push(last_event(FinishReason::kCancelled));
}

TEST_F(EventQueueTest, NothingKeepsItselfAlive) {
  std::weak_ptr<EventStream> stream;
  std::weak_ptr<EventQueue> queue = completions_->events();
  {
    const auto opened = open(1);
    opened->push(text_event("unread", {1}));
    stream = opened;
  }
  EXPECT_FALSE(stream.expired()) << "what is unread can be read";
  completions_.reset();
  EXPECT_TRUE(stream.expired());
  EXPECT_TRUE(queue.expired());
}

TEST(RequestHandles, DroppingOneCancels) {
  int woken = 0;
  const auto channel =
      RequestChannel::open(std::make_shared<EventQueue>(), 0, 1, {[&woken] { ++woken; }, {}});
  std::shared_ptr<RequestStream> reader = std::make_shared<PulledRequest>(channel);
  auto same = reader;
  reader.reset();
  EXPECT_FALSE(channel->cancelled());
  same.reset();
  EXPECT_TRUE(channel->cancelled());
  EXPECT_EQ(woken, 1);
}

TEST(RequestHandles, DroppingOneOfARequestThatHasEndedWakesNobody) {
  int woken = 0;
  const auto queue = std::make_shared<EventQueue>();
  const auto channel = RequestChannel::open(queue, 0, 2, {[&woken] { ++woken; }, {}});
  const auto first = std::make_shared<EventStream>(channel, 0);
  const auto second = std::make_shared<EventStream>(channel, 1);
  auto handle = std::make_shared<QueuedRequest>(channel);
  first->push(last_event(FinishReason::kLength));
  handle->cancel();
  EXPECT_EQ(woken, 1) << "one sample runs";
  second->push(last_event(FinishReason::kLength));
  handle.reset();
  EXPECT_EQ(woken, 1);
  queue->close();  // an unread event would keep its stream, and the stream the queue
}

TEST(RequestHandles, AskForOtherOptionsOfTheEngineThatChecksThem) {
  int woken = 0;
  const auto resolve = [](const SpeculationOptions& options) {
    return resolve_speculation(options, {.has_draft_model = false});
  };
  const auto channel =
      RequestChannel::open(std::make_shared<EventQueue>(), 0, 1, {[&woken] { ++woken; }, resolve});
  PulledRequest reader(channel);
  EXPECT_EQ(channel->wanted_plan(), nullptr);
  const Status refused = reader.change_speculation({.strategy = "parallel_tree"});
  EXPECT_EQ(refused.code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(channel->wanted_plan(), nullptr);
  EXPECT_EQ(woken, 0);
  ASSERT_TRUE(reader.change_speculation({.strategy = "autoregressive"}).ok());
  ASSERT_TRUE(reader.change_speculation({.strategy = "serial_tree"}).ok());
  EXPECT_EQ(woken, 2);
  EXPECT_STREQ(channel->wanted_plan()->strategy->name, "serial_tree") << "the last one counts";
}

}  // namespace
}  // namespace forerun
