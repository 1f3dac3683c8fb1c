// How long each stage of a pipeline may work on a Step before it is taken for one that hangs: it
// answers pings all the same, since another thread does.
//
// The coordinator hears when a stage is done with a Step, so it knows which stage has which Step,
// and since when: since the stage in front, or the stage itself, was done with the one before. A
// stage may take
//
//   floor + its weights at 100 MB/s + 10 * work of the Step * slowest seconds per work of late
//
// The weights since they may have to be read again from a disk after a pause. The slowest rate is
// forgotten by a tenth with every Step, and begins at 10 GB of weights a second.
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
  std::vector<int64_t> weight_bytes;  // of each stage; empty: not known
};

// What a Step costs, in rows of no context: four more for the weights, which are read once, and of
// each row what attention over its context adds.
double work_of(std::span<const StepRow> rows, const ModelConfig& config);

class StepDeadlines {
 public:
  using Clock = std::chrono::steady_clock;

  StepDeadlines(int32_t num_stages, const StepDeadlineOptions& options);

  // A Step has been sent to the first stage. Their numbers count up by one.
  void issue(uint64_t step, int32_t rows, double work, Clock::time_point now);
  // A stage (from 0) is done with a Step; so are those in front of it, whose word may come later.
  void pass(int32_t stage, uint64_t step, Clock::time_point now);

  struct Late {
    int32_t stage = 0;
    std::string
        what;  // "has worked on Step 7 (3 rows) for 61.2 s, longer than the 60.0 s that ..."
  };
  // The first stage that has had a Step for longer than it may. To be called several times a
  // second: where it has not been, this process has been stopped, and all have the time anew.
  std::optional<Late> find_late(Clock::time_point now);

 private:
  struct UnderWay {
    uint64_t step = 0;
    int32_t rows = 0;
    double work = 0.0;
    std::vector<Clock::time_point> arrived;  // at each stage that it has reached
  };
  struct Stage {
    uint64_t done = 0;  // with all Steps up to it
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
