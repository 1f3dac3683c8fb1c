// How many requests the engine's loop runs at a time: as many as the KV memory will hold once they
// have been read.
#include <gtest/gtest.h>

#include "engine/load/opened_model.h"
#include "engine/loop/engine_loop.h"
#include "support/held_executor.h"
#include "support/submit_to_loop.h"
#include "support/toy_model.h"

namespace forerun::testing {
namespace {

class AdmissionByLoop : public ::testing::Test {
 protected:
  AdmissionByLoop() {
    EXPECT_TRUE(write_toy_model(dir_.path(), {}).ok());
    model_.emplace(open_model(dir_.path().string()).value());
    auto executor = std::make_unique<HeldExecutor>();
    executor_ = executor.get();
    loop_ = std::make_unique<EngineLoop>(EngineLoop::Options{}, std::move(executor));
  }
  // Replaces the loop by another one.
  void begin(EngineLoop::Options options) {
    readers_.clear();
    loop_.reset();
    auto executor = std::make_unique<HeldExecutor>();
    executor_ = executor.get();
    loop_ = std::make_unique<EngineLoop>(options, std::move(executor));
  }
  void submit(std::vector<int32_t> prompt, bool share_prefix = true, int32_t priority = 0) {
    Request request;
    request.priority = priority;
    request.prompt_tokens = std::move(prompt);
    request.share_prefix = share_prefix;
    request.max_new_tokens = 20;
    readers_.push_back(submit_to_loop(*loop_, std::move(request), model_->tokenizer()));
  }

  TempDir dir_;
  std::optional<OpenedModel> model_;
  HeldExecutor* executor_ = nullptr;
  std::vector<std::shared_ptr<RequestStream>> readers_;  // dropping one cancels its request
  std::unique_ptr<EngineLoop> loop_;
};

// Each will take 5 blocks, and is admitted where one more is left for it and for every other.
TEST_F(AdmissionByLoop, WhatIsPromisedIsNotFree) {
  for (int32_t first = 0; first < 12; ++first) submit(std::vector<int32_t>(300, first));
  EXPECT_EQ(executor_->opened(), 4);
  // Pages that a request has read are in use, no longer promised.
  executor_->answer(1, 5);
  EXPECT_EQ(executor_->opened(), 4);
  // The pages of another request turned out to be in the cache already.
  executor_->answer(2, 5);
  EXPECT_EQ(executor_->opened(), 5);
}

// All requests share all but their last block with the first one: 26 blocks hold the first
// request's five blocks, one block of each of ten others, and one block to grow for each of the
// eleven.
TEST_F(AdmissionByLoop, WhatIsSharedIsPromisedOnce) {
  for (int32_t last = 0; last < 12; ++last) {
    std::vector<int32_t> prompt(260, 7);
    prompt.back() = last;
    submit(std::move(prompt));
  }
  EXPECT_EQ(executor_->opened(), 11);
}

// The same, but the request that was to read the shared pages first leaves before or after it has
// read them. Other requests must read them then, and their room stays reserved.
TEST_F(AdmissionByLoop, WhatIsSharedStaysPromisedToThoseWhoStay) {
  for (const bool after_reading : {false, true}) {
    for (int32_t last = 0; last < 14; ++last) {
      std::vector<int32_t> prompt(260, after_reading ? 8 : 7);
      prompt.back() = last;
      submit(std::move(prompt));
    }
    const int before = after_reading ? 23 : 11;
    EXPECT_EQ(executor_->opened(), before);
    const auto first = static_cast<SequenceId>(before - 10);
    if (after_reading) executor_->answer(first, 5);
    EXPECT_EQ(executor_->opened(), before);
    readers_.front().reset();
    executor_->answer(/*sequence=*/1000, /*used_blocks=*/0);
    EXPECT_TRUE(executor_->wait_for_closed(after_reading ? 13 : 1));
    EXPECT_EQ(executor_->opened(), before + 1) << after_reading;
    readers_.clear();
    EXPECT_TRUE(executor_->wait_for_closed(after_reading ? 24 : 12));
  }
}

TEST_F(AdmissionByLoop, WhoDoesNotShareIsPromisedAll) {
  for (int32_t request = 0; request < 12; ++request) {
    submit(std::vector<int32_t>(260, 7), /*share_prefix=*/false);
  }
  EXPECT_EQ(executor_->opened(), 4);
}

// The first takes all there is until it has been read; the others wait meanwhile.
TEST_F(AdmissionByLoop, TheHighestPriorityComesFirstThenWhoCameFirst) {
  submit(std::vector<int32_t>(1500, 1), false, 7);
  EXPECT_EQ(executor_->opened(), 1);
  for (const int32_t priority : {0, -1, 2, 7, 5, 2}) {
    submit(std::vector<int32_t>(20, priority + 10), false, priority);
  }
  EXPECT_EQ(executor_->opened(), 1);
  executor_->answer(1, 3);
  EXPECT_EQ(executor_->priorities(), (std::vector<int32_t>{7, 7, 5, 2, 2, 0, -1}));
}

// The request with the lowest priority and then the fewest tokens is set aside, whichever request
// found no blocks. No other request is admitted before one has ended.
TEST_F(AdmissionByLoop, TheFewestTokensOfTheLeastPriorityAreSetAside) {
  submit(std::vector<int32_t>(200, 1), false, 1);
  submit(std::vector<int32_t>(260, 2), false, 0);
  submit(std::vector<int32_t>(130, 3), false, 0);
  EXPECT_EQ(executor_->opened(), 3);
  executor_->starve(1);
  EXPECT_EQ(executor_->closed(), (std::vector<SequenceId>{3}));
  executor_->starve(2);
  EXPECT_EQ(executor_->closed(), (std::vector<SequenceId>{3, 2}));
  // Alone, and still without blocks: an error; then those set aside come back, the last one first.
  executor_->starve(1);
  EXPECT_EQ(executor_->closed(), (std::vector<SequenceId>{3, 2, 1}));
  EXPECT_EQ(executor_->priorities(), (std::vector<int32_t>{1, 0, 0, 0, 0}));
}

// A request that finds no place takes that of the least urgent one that has the fewest tokens; an
// equal one waits, and who was set aside comes back before those that have not begun.
TEST_F(AdmissionByLoop, AnUrgentRequestTakesThePlaceOfALessUrgentOne) {
  begin({.max_active = 3});
  for (const int32_t tokens : {30, 20, 25}) submit(std::vector<int32_t>(tokens, tokens), false);
  submit(std::vector<int32_t>(10, 1), false, 0);
  EXPECT_EQ(executor_->opened(), 3);
  submit(std::vector<int32_t>(40, 2), false, 1);
  EXPECT_EQ(executor_->opened(), 4);
  EXPECT_EQ(executor_->closed(), (std::vector<SequenceId>{2}));
  submit(std::vector<int32_t>(40, 3), false, 1);
  submit(std::vector<int32_t>(40, 3), false, 1);
  submit(std::vector<int32_t>(40, 3), false, 1);
  EXPECT_EQ(executor_->opened(), 6);
  EXPECT_EQ(executor_->closed(), (std::vector<SequenceId>{2, 3, 1}));
  EXPECT_EQ(executor_->priorities(), (std::vector<int32_t>{0, 0, 0, 1, 1, 1}));
}

// The urgent one needs eight blocks; three of eight are set aside for it, one after the other, as
// their blocks return.
TEST_F(AdmissionByLoop, AnUrgentRequestTakesTheBlocksOfLessUrgentOnes) {
  begin({});
  for (int32_t request = 0; request < 4; ++request) {
    submit(std::vector<int32_t>(300, request), false);
  }
  EXPECT_EQ(executor_->opened(), 4);
  for (SequenceId sequence = 1; sequence <= 4; ++sequence) executor_->answer(sequence, 22);
  EXPECT_EQ(executor_->opened(), 4);
  submit(std::vector<int32_t>(500, 9), false, 5);
  EXPECT_EQ(executor_->opened(), 4);
  EXPECT_EQ(executor_->closed().size(), 1u);
  executor_->answer(/*sequence=*/1, /*used_blocks=*/16);
  EXPECT_EQ(executor_->opened(), 4) << "eight blocks, and one to grow for each of four";
  // Nobody else is set aside before the first one's blocks can have returned.
  EXPECT_EQ(executor_->closed().size(), 1u);
  for (int turn = 0; turn < 4; ++turn) executor_->answer(/*sequence=*/1, /*used_blocks=*/16);
  EXPECT_EQ(executor_->opened(), 4);
  EXPECT_EQ(executor_->closed().size(), 2u);
  executor_->answer(/*sequence=*/1, /*used_blocks=*/10);
  EXPECT_EQ(executor_->priorities().back(), 5);
  EXPECT_EQ(executor_->closed().size(), 2u);
}

// Set aside twice without a token between, a request is left to run.
TEST_F(AdmissionByLoop, NobodyIsSetAsideForEver) {
  begin({.max_active = 1});
  submit(std::vector<int32_t>(20, 1), false);
  EXPECT_EQ(executor_->opened(), 1);
  for (int round = 0; round < 3; ++round) {
    submit(std::vector<int32_t>(10, 2), false, 1);
    const bool gives_way = round < 2;
    EXPECT_EQ(executor_->opened(), gives_way ? 2 * round + 2 : 5);
    readers_.back().reset();  // which ends it
    executor_->answer(/*sequence=*/1000, /*used_blocks=*/0);
    if (gives_way) {
      EXPECT_TRUE(executor_->wait_for_closed(2 * round + 2));
    }
    EXPECT_EQ(executor_->opened(), gives_way ? 2 * round + 3 : 5);
  }
}

}  // namespace
}  // namespace forerun::testing
