// Rows that were dropped from Steps in flight. A stage learns of them separately from the Steps'
// messages and before them.
//
// Any thread may call any method.
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
  // Adds all rows at once, so that a stage that leaves out a row also leaves out the rows that
  // attend to it. Ignores rows of Steps that have passed.
  void add(std::span<const IssuedRow> rows) {
    const std::lock_guard lock(mutex_);
    for (const IssuedRow& row : rows) {
      if (row.step > passed_) rows_[row.step].push_back(row.row);
    }
  }
  // Removes the cancelled rows of the message's Step from it.
  void take_out(StageMessage& message) const {
    const std::lock_guard lock(mutex_);
    const auto found = rows_.find(message.step);
    if (found != rows_.end()) message.drop_rows(found->second);
  }
  // Drops the rows of Step `step` and earlier ones, which no stage that uses this object will see
  // again.
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
