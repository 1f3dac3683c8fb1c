#include "hosts/step_deadlines.h"

#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <vector>

namespace forerun {
namespace {

using std::chrono::milliseconds;

// Three stages with a coordinator that checks ten times a second.
class StepDeadlinesTest : public ::testing::Test {
 protected:
  void make(int64_t weight_bytes) {
    deadlines_.emplace(
        3, StepDeadlineOptions{milliseconds(1000), std::vector<int64_t>(3, weight_bytes)});
  }
  void issue(int32_t rows) { deadlines_->issue(++issued_, rows, rows + 4.0, now_); }
  void pass(int32_t stage, uint64_t step) { deadlines_->pass(stage, step, now_); }
  // Returns the first time up to `max_ms` at which a stage is late; -1: none is.
  int late_after_ms(int max_ms) {
    for (int waited = 0; waited <= max_ms; waited += 100) {
      late_ = deadlines_->find_late(now_);
      if (late_) return waited;
      now_ += milliseconds(100);
    }
    return -1;
  }
  // Runs a Step through all stages, `each_ms` at each of them.
  void run(int32_t rows, int each_ms) {
    issue(rows);
    for (int32_t stage = 0; stage < 3; ++stage) {
      ASSERT_EQ(late_after_ms(each_ms - 100), -1) << late_->what;
      pass(stage, issued_);
    }
  }

  std::optional<StepDeadlines> deadlines_;
  std::optional<StepDeadlines::Late> late_;
  uint64_t issued_ = 0;
  StepDeadlines::Clock::time_point now_{std::chrono::hours(1)};
};

TEST_F(StepDeadlinesTest, NameTheStageThatHasTheStep) {
  for (int32_t hung = 0; hung < 3; ++hung) {
    make(0);
    issued_ = 0;
    for (int idx = 0; idx < 3; ++idx) issue(1);
    for (int32_t stage = 0; stage < hung; ++stage) {
      for (uint64_t step = 1; step <= 3; ++step) pass(stage, step);
    }
    EXPECT_EQ(late_after_ms(5000), 1100);
    ASSERT_TRUE(late_);
    EXPECT_EQ(late_->stage, hung);
    EXPECT_EQ(late_->what, "has worked on Step 1 (1 rows) for 1.1 s; accepted: at most 1.0 s");
  }
}

// Steps that wait for earlier ones are not late, nor is a stage without a Step.
TEST_F(StepDeadlinesTest, CountFromWhenAStageCouldBegin) {
  make(0);
  for (int idx = 0; idx < 10; ++idx) issue(1);
  for (uint64_t step = 1; step <= 10; ++step) {
    for (int32_t stage = 0; stage < 3; ++stage) {
      EXPECT_EQ(late_after_ms(900), -1);
      pass(stage, step);
    }
  }
  EXPECT_EQ(late_after_ms(100000), -1);
}

TEST_F(StepDeadlinesTest, GrowWithRowsAndWithWhatStepsHaveTaken) {
  make(0);
  for (int idx = 0; idx < 20; ++idx) run(1, 500);
  // 0.1 s per row: 1 s and 10 times (300 + 4) / 10.
  issue(300);
  EXPECT_EQ(late_after_ms(1000000), 305100);
  // At least linear in rows: like 1,000 Steps of one row in one.
  make(0);
  issued_ = 0;
  for (int idx = 0; idx < 20; ++idx) run(1, 500);
  issue(1000);
  EXPECT_EQ(late_after_ms(1000 * 500), -1);
}

// A Step that was slow once, before anything was in memory, is forgotten.
TEST_F(StepDeadlinesTest, ForgetWhatWasSlow) {
  make(0);
  run(1, 900);
  for (int idx = 0; idx < 60; ++idx) run(1, 100);
  issue(1);
  EXPECT_LE(late_after_ms(100000), 2200);
}

TEST_F(StepDeadlinesTest, KnowLargeModelsBeforeTheirFirstStep) {
  make(35'000'000'000);
  // 350 s to read the weights, and 35 s each for the row's unit of work and the weights' four.
  issue(1);
  const int late_ms = late_after_ms(100'000'000);
  EXPECT_GT(late_ms, 351'000 + 5 * 35'000 - 1000);
  EXPECT_LT(late_ms, 351'000 + 5 * 35'000 + 1000);
}

TEST_F(StepDeadlinesTest, StartAnewAfterAPauseOfThisProcess) {
  make(0);
  issue(1);
  EXPECT_EQ(late_after_ms(500), -1);
  now_ += std::chrono::hours(1);
  EXPECT_EQ(late_after_ms(900), -1);
  EXPECT_EQ(late_after_ms(500), 100);
}

// The last stage's answer may arrive before an earlier stage's notice.
TEST_F(StepDeadlinesTest, TakeNoticesThatComeLate) {
  make(0);
  issue(1);
  issue(1);
  pass(2, 1);
  pass(0, 1);
  pass(1, 1);
  pass(1, 7);  // no such Step has been issued
  EXPECT_EQ(late_after_ms(5000), 1100);
  EXPECT_EQ(late_->stage, 0);
  EXPECT_NE(late_->what.find("Step 2"), std::string::npos);
}

TEST(WorkOf, CountsRowsWeightsAndContext) {
  ModelConfig config;
  config.hidden_size = 4096;
  config.num_heads = 32;
  config.num_kv_heads = 32;
  config.head_dim = 128;
  config.intermediate_size = 4096 * 4 / 3;
  std::vector<StepRow> rows(3);
  EXPECT_DOUBLE_EQ(work_of(rows, config), 7.0);
  EXPECT_DOUBLE_EQ(work_of({}, config), 4.0);
  // Four projections and an MLP of equal cost: attention over 16,384 tokens costs the same again.
  rows.resize(1);
  rows[0].visible = 16384;
  EXPECT_NEAR(work_of(rows, config), 4.0 + 1.0 + 1.0, 0.01);
  EXPECT_DOUBLE_EQ(work_of(rows, ModelConfig()), 5.0);
}

}  // namespace
}  // namespace forerun
