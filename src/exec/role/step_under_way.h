// A Step from its composition until it has retired, with its inputs and the items of its rows.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <vector>

#include "exec/role/pending_item.h"
#include "exec/role/role_sequence.h"
#include "exec/role/step_builder.h"
#include "exec/step_record.h"
#include "forerun/trace.h"
#include "step/types.h"

namespace forerun {

struct StepUnderWay {
  StepUnderWay(Role role, int32_t vocab, const FeatureRows* features)
      : builder(role, vocab, features) {}

  // The next rows of an item, in the order in which they were added. Item and sequence must not
  // move until the Step has retired.
  struct Piece {
    RoleSequence* sequence = nullptr;
    PendingItem* item = nullptr;
    size_t first_item_row = 0;   // index in the item
    int32_t first_step_row = 0;  // index in the Step
    int32_t count = 0;
    bool is_last = false;  // the item has no further rows
    bool samples = false;  // some of its rows want something
  };

  void clear() {
    builder.clear();
    pieces.clear();
    items.clear();
    dead.clear();
    stages.clear();
    number = 0;
    live_rows = 0;
    entered_ns = 0;
    overlaps = false;
    host_ns = host_cpu_ns = run_cpu_ns = 0;
  }

  StepBuilder builder;
  StepBuilder::Built built;  // set once the Step is composed
  std::vector<Piece> pieces;
  std::vector<TraceItem> items;    // one per piece, if the worker traces
  std::vector<int32_t> dead;       // rows of the Step that need not run when it is issued
  uint64_t number = 0;             // the pipeline's number of the Step
  int32_t live_rows = 0;           // rows that no edit has dropped
  int64_t entered_ns = 0;          // when the first stage was free again
  bool overlaps = false;           // another Step was in flight at the same time
  std::vector<TraceStage> stages;  // stages that the Step has passed
  // The host's time and thread CPU time for composing it.
  int64_t host_ns = 0, host_cpu_ns = 0;
  // Begin and end of the run, and its thread CPU time.
  int64_t start_ns = 0, end_ns = 0, run_cpu_ns = 0;
};

// Steps in the order of issue.
using StepsUnderWay = std::deque<std::unique_ptr<StepUnderWay>>;

// Returns the record of a Step that has run, valid as long as the Step; includes the host's CPU
// time if `traced`.
StepRecord record_of(Role role, const StepUnderWay& step, bool traced);

}  // namespace forerun
