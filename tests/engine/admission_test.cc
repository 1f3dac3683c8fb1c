// How many requests the engine's loop runs at a time: as many as the KV memory will hold once they
// have been read.
#include <gtest/gtest.h>

#include "engine/engine_loop.h"
#include "engine/opened_model.h"
#include "engine/request_handles.h"
#include "strategies/speculation_plan.h"
#include "support/held_executor.h"
#include "support/toy_model.h"

namespace forerun::testing {
namespace {

class Admission : public ::testing::Test {
 protected:
  Admission() {
    EXPECT_TRUE(write_toy_model(dir_.path(), {}).ok());
    model_.emplace(open_model(dir_.path().string()).value());
    auto executor = std::make_unique<HeldExecutor>();
    executor_ = executor.get();
    loop_ = std::make_unique<EngineLoop>(EngineLoop::Options{}, std::move(executor),
                                         [] { return CostTable{}; });
  }
  void submit(std::vector<int32_t> prompt, bool share_prefix = true) {
    Request request;
    request.prompt_tokens = std::move(prompt);
    request.share_prefix = share_prefix;
    request.max_new_tokens = 20;
    PulledEnds ends = open_pulled_request([] {});
    loop_->submit(std::make_unique<ActiveRequest>(
        std::move(request), resolve_speculation({.strategy = "autoregressive"}).value(),
        model_->tokenizer, std::vector<int32_t>{}, std::move(ends.events)));
    readers_.push_back(std::move(ends.reader));
  }

  TempDir dir_;
  std::optional<OpenedModel> model_;
  HeldExecutor* executor_ = nullptr;
  std::vector<std::shared_ptr<RequestStream>> readers_;  // dropping one cancels its request
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
