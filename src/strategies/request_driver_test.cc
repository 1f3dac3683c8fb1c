#include "strategies/request_driver.h"

#include <gtest/gtest.h>

#include <array>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

namespace forerun {
namespace {

// A strategy that answers every turn with two items and a token, and counts its calls.
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
    if (result.tag == kFaultyRow) out.error = Status(StatusCode::kInvalidArgument, "NaN");
  }
  static constexpr uint64_t kFaultyRow = 99;
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
  size_t last_token_ = 100;  // the request is over with this many tokens
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

TEST_F(RequestDriverTest, FailsBehindTheTokensBeforeAFaultyRow) {
  start({7});
  EXPECT_EQ(result(Recorder::kFaultyRow), State::kFailed);
  EXPECT_EQ(driver_.error().message(), "NaN");
  EXPECT_EQ(emitted_, (std::vector<TokenId>{1, 2}));
  EXPECT_EQ(submitted_, (std::vector<uint64_t>{10, 11}));
}

TEST_F(RequestDriverTest, IsOverWhereATokenBeforeAFaultyRowEndsTheRequest) {
  last_token_ = 2;
  start({7});
  EXPECT_EQ(result(Recorder::kFaultyRow), State::kOver);
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

// Submits an item for the target in every turn, and one for the draft with it.
class Pair : public Strategy {
 public:
  explicit Pair(std::vector<RequestView>* started) : started_(started) {}
  void start(const RequestView& request, StrategyOutput& out) override {
    started_->push_back(request);
    answer(out);
  }
  void on_result(const WorkResult& result, StrategyOutput& out) override {
    ++results_;
    if (result.role == Role::kDraft) return;
    out.tokens.push_back({.token = 1, .top = {}});
    ++stats_.emitted_tokens;
    answer(out);
  }
  void on_costs(const CostTable&) override {}
  StrategyStats stats() const override { return stats_; }
  const char* name() const override { return "pair"; }
  int results() const { return results_; }

 private:
  void answer(StrategyOutput& out) {
    ++stats_.target_steps;
    ++stats_.draft_steps;
    for (const Role role : {Role::kTarget, Role::kDraft}) {
      WorkItem item;
      item.role = role;
      item.tag = static_cast<uint64_t>(stats_.target_steps);
      item.rows.push_back({.want = Want::kSample});
      out.work.push_back(std::move(item));
    }
  }

  std::vector<RequestView>* started_;
  StrategyStats stats_;
  int results_ = 0;
};

// Runs a row of the draft, then one of the target, in turn; the target's gives a token.
class DraftsFirst : public Strategy {
 public:
  void start(const RequestView& request, StrategyOutput& out) override {
    sequence_ = request.sequence;
    submit(Role::kDraft, out);
  }
  void on_result(const WorkResult& result, StrategyOutput& out) override {
    if (result.role == Role::kTarget) out.tokens.push_back({.token = 5, .logprob = 0, .top = {}});
    submit(result.role == Role::kTarget ? Role::kDraft : Role::kTarget, out);
  }
  void on_costs(const CostTable&) override {}
  StrategyStats stats() const override { return {}; }
  const char* name() const override { return "drafts_first"; }

 private:
  void submit(Role role, StrategyOutput& out) {
    WorkItem item;
    item.sequence = sequence_;
    item.role = role;
    item.rows.push_back(
        {.token = 1, .position = rows_[static_cast<size_t>(role)]++, .want = Want::kSample});
    out.work.push_back(std::move(item));
  }

  SequenceId sequence_ = 0;
  std::array<int32_t, kNumRoles> rows_{};
};

class ChangedStrategy : public ::testing::Test {
 protected:
  using State = RequestDriver::State;
  State start() {
    return driver_.start({.sequence = 1, .tokens = tokens_, .max_tokens = 100, .sampling = {}},
                         accept_, submit_);
  }
  // Delivers the result of the role's oldest item in flight.
  State result(Role role) {
    auto& items = in_flight_[static_cast<size_t>(role)];
    WorkResult result;
    result.role = role;
    result.tag = items.front().tag;
    result.rows.resize(1);
    items.erase(items.begin());
    return driver_.on_result(result, accept_, submit_);
  }
  std::unique_ptr<Pair> pair() { return std::make_unique<Pair>(&started_); }

  std::vector<RequestView> started_;
  std::vector<TokenId> tokens_ = {7, 8, 9};
  std::array<std::vector<WorkItem>, kNumRoles> in_flight_;
  std::function<bool(StrategyOutput&)> accept_ = [this](StrategyOutput& out) {
    for (const EmittedToken& token : out.tokens) tokens_.push_back(token.token);
    return false;
  };
  std::function<void(WorkItem)> submit_ = [this](WorkItem item) {
    in_flight_[static_cast<size_t>(item.role)].push_back(std::move(item));
  };
  RequestDriver driver_;
};

TEST_F(ChangedStrategy, WaitsForTheTargetAndForNothingElse) {
  driver_.set_strategy(pair());
  start();
  EXPECT_EQ(driver_.drain(), State::kDraining);
  EXPECT_EQ(driver_.drain(), State::kDraining) << "again";
  EXPECT_EQ(result(Role::kDraft), State::kDraining);
  EXPECT_EQ(result(Role::kTarget), State::kDrained);
  EXPECT_EQ(tokens_.size(), 4u) << "what was in flight came out";
  EXPECT_TRUE(in_flight_[0].empty() && in_flight_[1].empty()) << "and nothing followed it";
  driver_.change_strategy(pair());
  EXPECT_EQ(driver_.state(), State::kWaiting);
  EXPECT_EQ(start(), State::kRunning);
  ASSERT_EQ(started_.size(), 2u);
  // The strategy's only row of each role.
  EXPECT_EQ(started_[1].kv_tokens, (std::array<int32_t, kNumRoles>{1, 1}));
}

TEST_F(ChangedStrategy, DoesNotHearOfItsPredecessorsItems) {
  driver_.set_strategy(pair());
  start();
  driver_.drain();
  EXPECT_EQ(result(Role::kTarget), State::kDrained);
  auto next = pair();
  const Pair* const strategy = next.get();
  driver_.change_strategy(std::move(next));
  start();
  EXPECT_EQ(result(Role::kDraft), State::kRunning) << "of the first one";
  EXPECT_EQ(strategy->results(), 0);
  EXPECT_EQ(result(Role::kDraft), State::kRunning);
  EXPECT_EQ(strategy->results(), 1);
  EXPECT_EQ(result(Role::kTarget), State::kRunning);
  EXPECT_EQ(strategy->results(), 2);
}

TEST_F(ChangedStrategy, CountsOnlyWhatWasSubmitted) {
  driver_.set_strategy(pair());
  start();
  result(Role::kTarget);
  driver_.drain();
  result(Role::kTarget);
  EXPECT_EQ(driver_.stats().target_steps, 2);
  EXPECT_EQ(driver_.stats().emitted_tokens, 2);
  driver_.change_strategy(pair());
  EXPECT_EQ(driver_.stats().target_steps, 2);
  start();
  EXPECT_EQ(driver_.stats().target_steps, 3);
  EXPECT_EQ(driver_.stats().emitted_tokens, 2);
}

// Otherwise a request with frequent changes of strategy while it drafts would never verify.
TEST_F(ChangedStrategy, LetsAStrategyGoOnUntilTheTargetHasAnsweredItOnce) {
  driver_.set_strategy(std::make_unique<DraftsFirst>());
  start();
  EXPECT_EQ(driver_.drain(), State::kRunning) << "nothing is in flight at the target";
  EXPECT_EQ(result(Role::kDraft), State::kDraining) << "now something is";
  EXPECT_EQ(result(Role::kTarget), State::kDrained);
  EXPECT_EQ(tokens_.size(), 4u);
  EXPECT_TRUE(in_flight_[0].empty() && in_flight_[1].empty());
}

TEST_F(ChangedStrategy, MoreOftenThanTagsHaveNumbers) {
  driver_.set_strategy(pair());
  start();
  for (int change = 0; change < 70'000; ++change) {
    ASSERT_EQ(driver_.drain(), State::kDraining);
    ASSERT_EQ(result(Role::kTarget), State::kDrained) << change;
    in_flight_[static_cast<size_t>(Role::kDraft)].clear();
    driver_.change_strategy(pair());
    ASSERT_EQ(start(), State::kRunning);
  }
  EXPECT_EQ(result(Role::kTarget), State::kRunning);
}

TEST_F(ChangedStrategy, FailsWithWhatTheTargetHasInFlight) {
  driver_.set_strategy(pair());
  start();
  driver_.drain();
  WorkResult lost;
  lost.status = Status(StatusCode::kInternal, "lost");
  EXPECT_EQ(driver_.on_result(lost, accept_, submit_), State::kFailed);
  EXPECT_EQ(driver_.drain(), State::kFailed);
  // Rebuilt as a new sequence, without KV.
  driver_.set_strategy(pair());
  start();
  EXPECT_EQ(started_.back().kv_tokens, (std::array<int32_t, kNumRoles>{0, 0}));
}

}  // namespace
}  // namespace forerun
