// How many requests the engine's loop runs at a time: as many as the KV memory will hold once they
// have been read.
#include <gtest/gtest.h>

#include <condition_variable>
#include <deque>
#include <mutex>
#include <thread>

#include "engine/engine_loop.h"
#include "engine/opened_model.h"
#include "strategies/autoregressive.h"
#include "support/toy_model.h"

namespace forerun::testing {
namespace {

constexpr int64_t kBlocks = 26;

// Computes nothing: the test says which request's text the target has read, and what is in use.
class HeldExecutor : public Executor {
 public:
  Status open(SequenceId, const SequenceSpec&) override {
    const std::lock_guard lock(mutex_);
    ++opened_;
    return {};
  }
  void submit(WorkItem) override {}
  std::optional<WorkResult> next(std::chrono::microseconds) override {
    std::unique_lock lock(mutex_);
    ++rounds_;
    changed_.notify_all();
    if (!results_.empty()) {
      WorkResult result = std::move(results_.front());
      results_.pop_front();
      return result;
    }
    lock.unlock();
    std::this_thread::sleep_for(std::chrono::microseconds(100));
    return std::nullopt;
  }
  void close(SequenceId) override {}
  KvUsage kv_usage(Role role) const override {
    const std::lock_guard lock(mutex_);
    return role == Role::kTarget ? KvUsage{used_, kBlocks, 1} : KvUsage{};
  }

  void answer(SequenceId sequence, int64_t used_blocks) {
    const std::lock_guard lock(mutex_);
    used_ = used_blocks;
    WorkResult result;
    result.sequence = sequence;
    result.rows.resize(1);
    result.rows[0].token = 5;
    results_.push_back(std::move(result));
  }
  // Once the loop has seen everything that was submitted and answered before the call.
  int opened() {
    std::unique_lock lock(mutex_);
    const int64_t seen = rounds_ + 2 + static_cast<int64_t>(results_.size());
    changed_.wait_for(lock, std::chrono::seconds(20), [&] { return rounds_ >= seen; });
    return opened_;
  }

 private:
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<WorkResult> results_;
  int64_t used_ = 0;
  int64_t rounds_ = 0;
  int opened_ = 0;
};

class Admission : public ::testing::Test {
 protected:
  Admission() {
    EXPECT_TRUE(write_toy_model(dir_.path(), {}).ok());
    model_.emplace(open_model(dir_.path().string()).value());
    auto executor = std::make_unique<HeldExecutor>();
    executor_ = executor.get();
    loop_ = std::make_unique<EngineLoop>(
        EngineLoop::Options{}, std::move(executor),
        [](const Request&) { return std::make_unique<Autoregressive>(); });
  }
  void submit(std::vector<int32_t> prompt, bool share_prefix = true) {
    Request request;
    request.prompt_tokens = std::move(prompt);
    request.share_prefix = share_prefix;
    request.max_new_tokens = 20;
    loop_->submit(std::make_unique<ActiveRequest>(std::move(request), model_->tokenizer,
                                                  std::vector<int32_t>{},
                                                  std::make_shared<EventStream>([] {})));
  }

  TempDir dir_;
  std::optional<OpenedModel> model_;
  HeldExecutor* executor_ = nullptr;
  std::unique_ptr<EngineLoop> loop_;
};

// Each will take 5 blocks, and is admitted where one more is left for it and for every other.
TEST_F(Admission, WhatIsPromisedIsNotFree) {
  for (int32_t first = 0; first < 12; ++first) submit(std::vector<int32_t>(300, first));
  EXPECT_EQ(executor_->opened(), 4);
  // What one has read is in use instead.
  executor_->answer(1, 5);
  EXPECT_EQ(executor_->opened(), 4);
  // Another's turned out to be there already.
  executor_->answer(2, 5);
  EXPECT_EQ(executor_->opened(), 5);
}

// All but the last block of each is the first one's.
TEST_F(Admission, WhatIsSharedIsPromisedOnce) {
  for (int32_t last = 0; last < 12; ++last) {
    std::vector<int32_t> prompt(260, 7);
    prompt.back() = last;
    submit(std::move(prompt));
  }
  EXPECT_EQ(executor_->opened(), 9);
}

TEST_F(Admission, WhoDoesNotShareIsPromisedAll) {
  for (int32_t request = 0; request < 12; ++request) {
    submit(std::vector<int32_t>(260, 7), /*share_prefix=*/false);
  }
  EXPECT_EQ(executor_->opened(), 4);
}

}  // namespace
}  // namespace forerun::testing
