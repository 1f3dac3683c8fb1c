// Rows that were dropped from Steps under way. A stage learns of them separately from the Steps'
// messages and ahead of them.
//
// Thread rules: every method from any thread.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <span>
#include <vector>

#include "exec/stages/stage_message.h"
#include "exec/step_runner.h"

namespace forerun {

class CancelledRows {
 public:
  // Adds all rows at once, so that a stage that leaves a row out also leaves out the rows that see
  // it. Rows of Steps that have passed are ignored.
  void add(std::span<const IssuedRow> rows) {
    const std::lock_guard lock(mutex_);
    for (const IssuedRow& row : rows) {
      if (row.step > passed_) rows_[row.step].push_back(row.row);
    }
  }
  // Takes the cancelled rows of the message's Step out of it.
  void take_out(StageMessage& message) const {
    const std::lock_guard lock(mutex_);
    const auto found = rows_.find(message.step);
    if (found != rows_.end()) message.drop_rows(found->second);
  }
  // No stage that uses this object will see Step `step` or an earlier one again.
  void pass(uint64_t step) {
    const std::lock_guard lock(mutex_);
    passed_ = step;
    rows_.erase(rows_.begin(), rows_.upper_bound(step));
  }

 private:
  mutable std::mutex mutex_;
  uint64_t passed_ = 0;
  std::map<uint64_t, std::vector<int32_t>> rows_;  // by Step
};

}  // namespace forerun
