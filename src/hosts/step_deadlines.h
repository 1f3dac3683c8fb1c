// The time that each stage of a pipeline may work on a Step before it counts as hung. Pings do not
// show that, since another thread of the stage answers them.
//
// The coordinator learns when a stage has finished a Step, so it knows which stage has which Step,
// and since when: since the previous stage has finished it and the stage itself has finished the
// previous one. A stage may take
//
//   floor + its weights at 100 MB/s + 10 * work of the Step * the slowest recent seconds per unit
//   of work
//
// The weights' term covers the case that they must be read from a disk again after a pause. With
// every Step the slowest rate decays by a tenth; it begins at the time to read the stage's weights
// at 10 GB/s for each row of work.
//
// Thread rules: one thread at a time.
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "exec/stages/stage_transport.h"

namespace forerun {

struct StepDeadlineOptions {
  std::chrono::milliseconds floor{60000};
  std::vector<int64_t> weight_bytes;  // one per stage; empty: unknown
};

// Returns the work of a Step, in rows without context: one per row, plus the share of attention
// over its context, plus four for reading the weights once.
double work_of(std::span<const StepRow> rows, const ModelConfig& config);

class StepDeadlines {
 public:
  using Clock = std::chrono::steady_clock;

  StepDeadlines(int32_t num_stages, const StepDeadlineOptions& options);

  // Records that a Step has been sent to the first stage. Steps are numbered consecutively.
  void issue(uint64_t step, int32_t rows, double work, Clock::time_point now);
  // Records that a stage (from 0) has finished a Step, and so have the stages before it, whose
  // notices may arrive later.
  void pass(int32_t stage, uint64_t step, Clock::time_point now);

  struct Late {
    int32_t stage = 0;
    std::string what;  // "has worked on Step 7 (3 rows) for 61.2 s; accepted: at most 60.0 s"
  };
  // Returns the first stage that has had a Step for longer than allowed. Must be called several
  // times a second: a longer pause between two calls means that this process was stopped, and then
  // every stage gets its whole time again.
  std::optional<Late> find_late(Clock::time_point now);

 private:
  struct UnderWay {
    uint64_t step = 0;
    int32_t rows = 0;
    double work = 0.0;
    std::vector<Clock::time_point> arrived;  // at each stage that it has reached
  };
  struct Stage {
    uint64_t done = 0;  // the last Step that the stage has finished
    Clock::time_point done_at;
    double read_seconds = 0.0;
    double seconds_per_work = 0.0;
  };
  double allowed_seconds(const Stage& stage, double work) const;
  UnderWay* find(uint64_t step);

  const std::chrono::milliseconds floor_;
  std::vector<Stage> stages_;
  std::deque<UnderWay> under_way_;  // in order of issue
  std::optional<Clock::time_point> looked_;
};

}  // namespace forerun
