// The choice of the guessed rows that are worth running, among all verifications in a Step.
//
// Rows are compared by their gain in the logarithm of a request's speed: if a request expects E
// tokens of the Step, a row that adds another token with chance c is worth log(1 + c / E).
// StepScheduler::verification_rows() maximizes the sum of these logarithms, less the loss of all
// requests that wait for a longer Step. So similar requests gain the most tokens together; among
// different ones, requests with unpredictable output do not wait long for those with predictable
// output.
//
// Only one thread may use an object.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "exec/step_scheduler.h"
#include "step/step_load.h"
#include "step/work.h"

namespace forerun {

class GuessRows {
 public:
  void clear();
  // Adds the rows of an item that has not begun, behind `context` tokens. The item must not move
  // until leave_out().
  void add(WorkItem& item, int64_t context);
  // Returns whether some row may be left out.
  bool any() const { return !rows_.empty(); }
  // Returns the load of the rows that run in any case.
  const StepLoad& certain() const { return certain_; }
  // Removes from the items the rows that are not worth running (WorkRow::chance). `held_up` is the
  // number of requests that wait for the Step, whether it has their rows or not; `prompt_rows` is
  // the number of prompt rows that the Step takes as well.
  void leave_out(const StepScheduler& scheduler, int64_t held_up, int32_t prompt_rows);

 private:
  struct Row {
    float gain = 0.0f;
    int32_t idx = 0;  // index of the row in its item
  };
  struct Offer {
    WorkItem* item = nullptr;
    size_t begin = 0;  // rows_[begin, end) are the item's rows, in its order
    size_t end = 0;
  };

  StepLoad certain_{.rows = 0, .sequences = 0};  // load of the rows that run in any case
  std::vector<Row> rows_;
  std::vector<Offer> offers_;
  std::vector<float> gains_;    // descending
  std::vector<size_t> sorted_;  // scratch for an item's rows
};

}  // namespace forerun
