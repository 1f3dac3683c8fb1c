#include "strategies/request_driver.h"

#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <utility>
#include <vector>

namespace forerun {
namespace {

// Answers every turn with two items and a token; counts what it is told.
class Recorder : public Strategy {
 public:
  explicit Recorder(std::vector<TokenId>* told) : told_(told) {}
  void start(const RequestView& request, StrategyOutput& out) override {
    told_->insert(told_->end(), request.tokens.begin(), request.tokens.end());
    answer(out);
  }
  void on_result(const WorkResult& result, StrategyOutput& out) override {
    told_->push_back(static_cast<TokenId>(result.tag));
    answer(out);
  }
  void on_costs(const CostTable&) override {}
  StrategyStats stats() const override {
    return {.target_steps = turns_, .emitted_tokens = turns_};
  }
  const char* name() const override { return "recorder"; }

 private:
  void answer(StrategyOutput& out) {
    EXPECT_TRUE(out.work.empty() && out.tokens.empty() && out.rounds.empty());
    ++turns_;
    for (uint64_t item = 0; item < 2; ++item) {
      out.work.push_back(
          {.tag = 10 * static_cast<uint64_t>(turns_) + item, .edits = {}, .rows = {}});
    }
    out.tokens.push_back({.token = static_cast<TokenId>(turns_), .top = {}});
    out.rounds.emplace_back();
  }

  std::vector<TokenId>* told_;
  int64_t turns_ = 0;
};

class RequestDriverTest : public ::testing::Test {
 protected:
  using State = RequestDriver::State;

  State start(const std::vector<TokenId>& tokens) {
    return driver_.start({.sequence = 1, .tokens = tokens, .max_tokens = 100, .sampling = {}},
                         accept_, submit_);
  }
  State result(uint64_t tag, Status status = {}) {
    WorkResult result;
    result.tag = tag;
    result.status = std::move(status);
    return driver_.on_result(result, accept_, submit_);
  }

  std::vector<TokenId> told_;
  std::vector<uint64_t> submitted_;
  std::vector<TokenId> emitted_;
  size_t last_token_ = 100;  // over with so many
  std::function<bool(StrategyOutput&)> accept_ = [this](StrategyOutput& out) {
    for (const EmittedToken& token : out.tokens) emitted_.push_back(token.token);
    return emitted_.size() >= last_token_;
  };
  std::function<void(WorkItem)> submit_ = [this](const WorkItem& item) {
    submitted_.push_back(item.tag);
  };
  RequestDriver driver_{std::make_unique<Recorder>(&told_)};
};

TEST_F(RequestDriverTest, SubmitsEveryTurnsWorkInOrder) {
  EXPECT_EQ(driver_.state(), State::kWaiting);
  EXPECT_EQ(start({7, 8}), State::kRunning);
  EXPECT_EQ(result(3), State::kRunning);
  EXPECT_EQ(told_, (std::vector<TokenId>{7, 8, 3}));
  EXPECT_EQ(submitted_, (std::vector<uint64_t>{10, 11, 20, 21}));
  EXPECT_EQ(emitted_, (std::vector<TokenId>{1, 2}));
}

TEST_F(RequestDriverTest, SubmitsNothingOfTheTurnThatEndsTheRequest) {
  last_token_ = 2;
  start({7});
  EXPECT_EQ(result(3), State::kOver);
  EXPECT_EQ(submitted_, (std::vector<uint64_t>{10, 11}));
  EXPECT_EQ(result(4), State::kOver);
  EXPECT_EQ(told_, (std::vector<TokenId>{7, 3})) << "a late result must not reach the strategy";
}

TEST_F(RequestDriverTest, KeepsFailedResultsFromTheStrategy) {
  EXPECT_EQ(result(2), State::kWaiting) << "before the start";
  start({7});
  EXPECT_EQ(result(3, Status(StatusCode::kInternal, "lost")), State::kFailed);
  EXPECT_EQ(result(4), State::kFailed);
  EXPECT_EQ(told_, (std::vector<TokenId>{7}));
  EXPECT_EQ(emitted_.size(), 1u);
}

TEST_F(RequestDriverTest, GoesOnWithAnotherStrategyAndCountsForBoth) {
  start({7});
  result(3);
  result(4, Status(StatusCode::kResourceExhausted, "no blocks"));
  driver_.set_strategy(nullptr);
  EXPECT_EQ(driver_.state(), State::kWaiting);
  EXPECT_STREQ(driver_.strategy_name(), "none");
  EXPECT_EQ(driver_.stats().target_steps, 2);
  driver_.set_strategy(std::make_unique<Recorder>(&told_));
  EXPECT_EQ(start({7, 1, 2}), State::kRunning);
  EXPECT_STREQ(driver_.strategy_name(), "recorder");
  EXPECT_EQ(driver_.stats().target_steps, 3);
  EXPECT_EQ(driver_.stats().emitted_tokens, 3);
  EXPECT_EQ(told_, (std::vector<TokenId>{7, 3, 7, 1, 2}));
}

}  // namespace
}  // namespace forerun
