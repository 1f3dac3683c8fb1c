#include "exec/emulated/stage_timeline.h"

#include <gtest/gtest.h>

#include <map>

namespace forerun {
namespace {

constexpr int64_t kStageMs = 1000000;

// Three stages of 10 ms, each with five layers, whatever the number of rows. Links have 1 ms
// latency and carry a row in 2 ms, less the time of its header.
class ThreeStages : public ::testing::Test {
 protected:
  void issue(uint64_t step, int32_t rows, int64_t ms, std::vector<int32_t> dropped = {}) {
    advance(ms);
    timeline_.issue(step, even_load(1, rows, 100), dropped, ms * kStageMs);
  }
  void drop(uint64_t step, std::vector<int32_t> rows, int64_t ms) {
    std::vector<IssuedRow> issued;
    for (const int32_t row : rows) issued.push_back({step, row});
    advance(ms);
    timeline_.drop(issued, ms * kStageMs);
  }
  // Processes all events until `until_ms`, and records their times.
  void advance(int64_t until_ms) {
    std::vector<PipelineEvent> events;
    for (auto next = timeline_.next_ns(); next && *next <= until_ms * kStageMs;
         next = timeline_.next_ns()) {
      timeline_.advance(*next, events);
      for (const PipelineEvent& event : events) {
        const bool entered = event.kind == PipelineEvent::Kind::kEntered;
        (entered ? entered_ : retired_)[event.step] = 1e-6 * static_cast<double>(*next);
      }
      events.clear();
    }
  }

  static constexpr double kRowMs = 2.0;
  StageTimeline timeline_{{.stages = 3,
                           .layers = 5,
                           .row_bytes = 2000000 - 64,
                           .bytes_per_s = 1e9,
                           .latency_seconds = 1e-3},
                          [](const StepLoad&) { return 30e-3; }};
  std::map<uint64_t, double> entered_, retired_;  // in milliseconds
};

TEST_F(ThreeStages, AStepPassesStagesAndLinks) {
  EXPECT_FALSE(timeline_.next_ns());
  issue(1, 1, 5);
  advance(1000);
  EXPECT_NEAR(entered_[1], 15, 1e-3);
  // The row passes two links, and the result goes back.
  EXPECT_NEAR(retired_[1], 5 + 30 + 2 * (kRowMs + 1) + 1, 1e-2);
  EXPECT_FALSE(timeline_.next_ns());
}

TEST_F(ThreeStages, StepsFollowEachOther) {
  issue(1, 1, 0);
  issue(2, 2, 0);
  advance(1000);
  EXPECT_NEAR(entered_[2], 20, 1e-3);
  EXPECT_NEAR(retired_[2], 40 + 2 * (2 * kRowMs + 1) + 1, 1e-2);
}

TEST_F(ThreeStages, ASlowLinkHoldsUpWhatComesBehind) {
  for (uint64_t step = 1; step <= 4; ++step) issue(step, 10, 0);
  advance(1000);
  EXPECT_NEAR(entered_[4], 40, 1e-3);
  EXPECT_NEAR(retired_[4] - retired_[3], 10 * kRowMs, 1e-2);
}

TEST_F(ThreeStages, WhatIsDeadBeforeItBeginsTakesNoTime) {
  issue(1, 2, 0, {0, 1});
  issue(2, 2, 0);
  issue(3, 2, 0);
  drop(3, {0, 1}, 3);
  advance(1000);
  EXPECT_NEAR(entered_[1], 0, 1e-2);
  EXPECT_NEAR(retired_[1], 3, 1e-2);
  EXPECT_NEAR(entered_[2], 10, 1e-2);
  EXPECT_NEAR(entered_[3], 10, 1e-2);
  EXPECT_LE(retired_[2], retired_[3]);
}

TEST_F(ThreeStages, AStageLeavesADeadStepBetweenLayers) {
  issue(1, 2, 0);
  drop(1, {0}, 1);
  drop(1, {1}, 3);
  drop(1, {0, 1}, 3);
  issue(2, 1, 3);
  advance(1000);
  EXPECT_NEAR(entered_[1], 4, 1e-2);
  EXPECT_NEAR(entered_[2], 14, 1e-2);
}

TEST_F(ThreeStages, OtherHostsKnowOfADropALatencyLater) {
  issue(1, 1, 0);
  // In the second stage since 13; the stage learns of it at 16, and its layer ends at 17.
  drop(1, {0}, 15);
  issue(2, 1, 15);
  advance(1000);
  EXPECT_NEAR(retired_[1], 17 + 2, 1e-2);
}

TEST_F(ThreeStages, RowsThatAreDroppedAreNotSent) {
  issue(1, 10, 0);
  drop(1, {0, 1, 2, 3, 4, 5, 6, 7, 8}, 5);
  advance(1000);
  EXPECT_NEAR(retired_[1], 30 + 2 * (kRowMs + 1) + 1, 1e-2);
}

}  // namespace
}  // namespace forerun
