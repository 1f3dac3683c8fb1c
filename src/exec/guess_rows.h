// Decides which rows of guesses are worth running, among all verifications that share a Step.
//
// Rows are compared by what they add to the logarithm of a request's speed: to a request that is
// expected to get E tokens of the Step, a row that adds another token with chance c is worth log(1
// + c / E). StepScheduler::verification_rows() maximizes the sum of these logarithms, less what a
// longer Step takes off the speed of all requests that wait for it. So where requests are alike,
// they gain the most tokens together; where they are not, requests whose text cannot be guessed do
// not wait long for those whose text can.
//
// One thread.
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
  // Whether there is a row that may be left out.
  bool any() const { return !rows_.empty(); }
  // The load of the rows so far that are run in any case.
  const StepLoad& certain() const { return certain_; }
  // Removes from the items the rows that are not worth running (WorkRow::chance). `held_up`:
  // requests whose next token waits for the Step, whether it has rows of theirs or not.
  // `prompt_rows`: rows of prompts that the Step takes as well.
  void leave_out(const StepScheduler& scheduler, int64_t held_up, int32_t prompt_rows);

 private:
  struct Row {
    float gain = 0.0f;
    int32_t idx = 0;  // index in its item
  };
  struct Offer {
    WorkItem* item = nullptr;
    size_t begin = 0;  // rows_[begin, end) are its rows, in the item's order
    size_t end = 0;
  };

  StepLoad certain_{.rows = 0, .sequences = 0};  // the load of the rows that are run in any case
  std::vector<Row> rows_;
  std::vector<Offer> offers_;
  std::vector<float> gains_;    // descending
  std::vector<size_t> sorted_;  // scratch: an item's rows
};

}  // namespace forerun
