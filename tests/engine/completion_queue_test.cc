// Many requests, one reader: the completion queue through the public interface.
#include "forerun/completion_queue.h"

#include <gtest/gtest.h>
#include <poll.h>

#include <atomic>
#include <map>
#include <mutex>
#include <random>
#include <thread>

#include "base/sanitized.h"
#include "engine/load/opened_model.h"
#include "engine/loop/engine_loop.h"
#include "support/held_executor.h"
#include "support/on_toy_pair_rig.h"
#include "support/submit_to_loop.h"

namespace forerun::testing {
namespace {

constexpr uint64_t kQueuedRequests = kSanitized ? 24 : 100;

class CompletionQueues : public OnToyPair {
 protected:
  CompletionQueues() : engine_(make()), queue_(std::move(CompletionQueue::create()).value()) {}

  static Request request_of(uint64_t seed) {
    std::mt19937_64 random(seed);
    Request request;
    append_random_tokens(random, 1 + random() % 60, request.prompt_tokens);
    request.max_new_tokens = static_cast<int32_t>(1 + random() % 40);
    request.ignore_eos = true;
    request.sampling.temperature = seed % 3 == 0 ? 0.0f : 0.9f;
    request.sampling.seed = seed;
    return request;
  }

  std::unique_ptr<Engine> engine_;
  std::unique_ptr<CompletionQueue> queue_;
};

void add(std::map<uint64_t, Output>& outputs, Completion completion) {
  Output& output = outputs[completion.tag];
  Event& event = completion.event;
  EXPECT_NE(output.stats.output_tokens, -1) << "nothing follows the last event";
  output.tokens.insert(output.tokens.end(), event.tokens.begin(), event.tokens.end());
  output.text += event.text;
  if (!event.finished) return;
  output.reason = event.reason;
  output.error = event.error;
  EXPECT_EQ(event.stats.output_tokens, static_cast<int32_t>(output.tokens.size()));
  output.stats.output_tokens = -1;
}

// Works like a server: one thread sleeps in poll(2), submits requests and takes completions.
TEST_F(CompletionQueues, OneThreadServesManyRequests) {
  std::map<uint64_t, std::shared_ptr<RequestHandle>> handles;
  std::map<uint64_t, Output> outputs;
  uint64_t submitted = 0;
  while (submitted < kQueuedRequests || queue_->outstanding() > 0) {
    for (int count = 0; submitted < kQueuedRequests && count < 7; ++count, ++submitted) {
      auto handle = engine_->submit(request_of(submitted), *queue_, submitted);
      ASSERT_TRUE(handle.ok()) << handle.status().message();
      handles[submitted] = *handle;
    }
    pollfd descriptor{queue_->fd(), POLLIN, 0};
    ASSERT_EQ(::poll(&descriptor, 1, 20000), 1);
    while (auto completion = queue_->poll()) {
      if (completion->event.finished) handles.erase(completion->tag);
      add(outputs, std::move(*completion));
    }
  }
  EXPECT_TRUE(handles.empty());
  ASSERT_EQ(outputs.size(), kQueuedRequests);
  for (uint64_t seed = 0; seed < kQueuedRequests; ++seed) {
    const Output alone = complete(*engine_, request_of(seed));
    EXPECT_EQ(outputs[seed].tokens, alone.tokens) << seed;
    EXPECT_EQ(outputs[seed].text, alone.text) << seed;
  }
}

TEST_F(CompletionQueues, WhoReadsNothingIsOwedOneEventARequest) {
  std::vector<std::shared_ptr<RequestHandle>> handles;
  for (uint64_t seed = 0; seed < 8; ++seed) {
    handles.push_back(*engine_->submit(request_of(seed), *queue_, seed));
  }
  complete(*engine_, request_of(99));
  EXPECT_TRUE(releases_its_kv(*engine_));
  // The loop serves this new request after it has ended all earlier ones.
  complete(*engine_, request_of(99));
  std::map<uint64_t, Output> outputs;
  int completions = 0;
  while (auto completion = queue_->next()) {
    add(outputs, std::move(*completion));
    ++completions;
  }
  EXPECT_EQ(completions, 8);
  for (uint64_t seed = 0; seed < 8; ++seed) {
    EXPECT_EQ(outputs[seed].tokens, complete(*engine_, request_of(seed)).tokens);
  }
}

TEST_F(CompletionQueues, OutliveTheEngine) {
  std::vector<std::shared_ptr<RequestHandle>> handles;
  for (uint64_t seed = 0; seed < 20; ++seed) {
    Request request = request_of(seed);
    request.max_new_tokens = 400;
    handles.push_back(*engine_->submit(request, *queue_, seed));
  }
  engine_.reset();
  handles[3]->cancel();
  std::map<uint64_t, Output> outputs;
  while (auto completion = queue_->next()) add(outputs, std::move(*completion));
  ASSERT_EQ(outputs.size(), 20u);
  for (const auto& [tag, output] : outputs) {
    EXPECT_TRUE(output.reason == FinishReason::kCancelled || output.tokens.size() == 400) << tag;
  }
}

TEST_F(CompletionQueues, ARefusedRequestLeavesNothingInTheQueue) {
  Request request = request_of(1);
  request.max_new_tokens = -1;
  EXPECT_FALSE(engine_->submit(request, *queue_, 1).ok());
  EXPECT_EQ(queue_->outstanding(), 0);
  EXPECT_FALSE(queue_->next());
}

// Submitted, cancelled, dropped and read from several threads at once: every request that was
// accepted ends exactly once.
TEST_F(CompletionQueues, TakeAnyNumberOfThreads) {
  std::atomic<int> submitters = 2;
  std::mutex mutex;
  std::map<uint64_t, int> ended;
  const auto read = [&] {
    while (submitters > 0 || queue_->outstanding() > 0) {
      const auto completion = queue_->next_for(std::chrono::milliseconds(2));
      if (!completion || !completion->event.finished) continue;
      const std::lock_guard lock(mutex);
      ++ended[completion->tag];
    }
  };
  const auto submit_and_read = [&](uint64_t first) {
    std::mt19937 random(static_cast<uint32_t>(first));
    std::vector<std::shared_ptr<RequestHandle>> handles;
    for (uint64_t seed = first; seed < kQueuedRequests; seed += 2) {
      auto handle = engine_->submit(request_of(seed), *queue_, seed);
      ASSERT_TRUE(handle.ok());
      if (random() % 4 == 0) (*handle)->cancel();
      if (random() % 4 != 0) handles.push_back(std::move(*handle));
    }
    --submitters;
    read();
  };
  std::vector<std::thread> threads;
  threads.emplace_back(submit_and_read, 0);
  threads.emplace_back(submit_and_read, 1);
  threads.emplace_back(read);
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(ended.size(), kQueuedRequests);
  for (const auto& [tag, times] : ended) EXPECT_EQ(times, 1) << tag;
  EXPECT_TRUE(releases_its_kv(*engine_));
}

// On an executor that never answers a request ends only by being cancelled.
class DroppedRequests : public ::testing::Test {
 protected:
  DroppedRequests() {
    EXPECT_TRUE(write_toy_model(dir_.path(), {}).ok());
    model_.emplace(open_model(dir_.path().string()).value());
    auto executor = std::make_unique<HeldExecutor>();
    executor_ = executor.get();
    loop_ = std::make_unique<EngineLoop>(EngineLoop::Options{}, std::move(executor));
  }
  void submit(std::shared_ptr<RequestChannel> channel) {
    Request request;
    request.prompt_tokens = {1, 2, 3};
    submit_to_loop(*loop_, std::move(request), model_->tokenizer(), std::move(channel));
    ASSERT_EQ(executor_->opened(), ++submitted_);
  }

  TempDir dir_;
  std::optional<OpenedModel> model_;
  HeldExecutor* executor_ = nullptr;
  std::unique_ptr<EngineLoop> loop_;
  int submitted_ = 0;
};

TEST_F(DroppedRequests, AStreamThatNobodyHoldsCancels) {
  const auto channel = open_channel(*loop_, std::make_shared<EventQueue>(), 0);
  auto reader = std::make_unique<PulledRequest>(channel);
  submit(channel);
  reader.reset();
  EXPECT_TRUE(executor_->wait_for_closed(1));
}

TEST_F(DroppedRequests, AHandleThatNobodyHoldsCancelsAndTheTagComesBack) {
  const auto queue = std::move(CompletionQueue::create()).value();
  const auto channel = open_channel(*loop_, queue->events(), 5);
  auto handle = std::make_unique<QueuedRequest>(channel);
  submit(channel);
  handle.reset();
  const auto completion = queue->next();
  ASSERT_TRUE(completion);
  EXPECT_EQ(completion->tag, 5u);
  EXPECT_TRUE(completion->event.last);
  EXPECT_EQ(completion->event.reason, FinishReason::kCancelled);
}

TEST_F(DroppedRequests, AQueueThatIsGoneCancels) {
  auto queue = std::move(CompletionQueue::create()).value();
  const auto channel = open_channel(*loop_, queue->events(), 5);
  QueuedRequest handle(channel);
  submit(channel);
  queue.reset();
  EXPECT_TRUE(executor_->wait_for_closed(1));
}

}  // namespace
}  // namespace forerun::testing
