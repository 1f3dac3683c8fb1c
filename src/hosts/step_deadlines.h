// How long each stage of a pipeline may work on a Step before it counts as hung. Pings do not show
// that: another thread of the stage answers them.
//
// The coordinator hears when a stage is done with a Step, so it knows which stage has which Step,
// and since when: since the stage in front, or the stage itself, was done with the one before. A
// stage may take
//
//   floor + its weights at 100 MB/s + 10 * work of the Step * slowest seconds per work of late
//
// The weights' term is there since they may have to be read from a disk again after a pause. With
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
  std::vector<int64_t> weight_bytes;  // one for each stage; empty: not known
};

// The work of a Step, in rows without context: one for each row, more by what attention over its
// context adds, and four for reading the weights once.
double work_of(std::span<const StepRow> rows, const ModelConfig& config);

class StepDeadlines {
 public:
  using Clock = std::chrono::steady_clock;

  StepDeadlines(int32_t num_stages, const StepDeadlineOptions& options);

  // A Step has been sent to the first stage. Steps are numbered consecutively.
  void issue(uint64_t step, int32_t rows, double work, Clock::time_point now);
  // A stage (from 0) is done with a Step, and so are the stages in front of it, whose notices may
  // come later.
  void pass(int32_t stage, uint64_t step, Clock::time_point now);

  struct Late {
    int32_t stage = 0;
    std::string
        what;  // "has worked on Step 7 (3 rows) for 61.2 s, longer than the 60.0 s that ..."
  };
  // The first stage that has had a Step for longer than allowed. Must be called several times a
  // second: a longer pause between two calls means that this process was stopped, and then every
  // stage gets its whole time again.
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
  std::deque<UnderWay> under_way_;  // in order
  std::optional<Clock::time_point> looked_;
};

}  // namespace forerun
