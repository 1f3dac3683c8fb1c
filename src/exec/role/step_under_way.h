// A Step from its composition until it has retired: what it was built from and the items whose rows
// it has.
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

  // An item's next rows, in the order in which they were added. Both stay where they are until the
  // Step has retired.
  struct Piece {
    RoleSequence* sequence = nullptr;
    PendingItem* item = nullptr;
    size_t first_item_row = 0;   // index in the item
    int32_t first_step_row = 0;  // index in the Step
    int32_t count = 0;
    bool is_last = false;  // no rows of the item are left
    bool samples = false;  // some of its rows want something
  };

  void clear() {
    builder.clear();
    pieces.clear();
    items.clear();
    dead.clear();
    stages.clear();
    number = 0;
    overlaps = false;
    host_ns = host_cpu_ns = run_cpu_ns = 0;
  }

  StepBuilder builder;
  StepBuilder::Built built;  // set once the Step is composed
  std::vector<Piece> pieces;
  std::vector<TraceItem> items;    // one for each piece, where the worker traces
  std::vector<int32_t> dead;       // rows of the Step that need not be run, as it is issued
  uint64_t number = 0;             // the pipeline's number for it
  bool overlaps = false;           // another one was under way at the same time
  std::vector<TraceStage> stages;  // the stages that it has passed
  // The host's time and thread CPU time of composing it.
  int64_t host_ns = 0, host_cpu_ns = 0;
  // When the runner began and ended, and its thread CPU time.
  int64_t start_ns = 0, end_ns = 0, run_cpu_ns = 0;
};

// Steps in the order in which they were issued.
using StepsUnderWay = std::deque<std::unique_ptr<StepUnderWay>>;

// What is reported of a Step that has run, valid as long as the Step is; with the host's CPU
// time where `traced`.
StepRecord record_of(Role role, const StepUnderWay& step, bool traced);

}  // namespace forerun
