// Rows of Steps under way that nobody will ask about, as a stage hears of them: beside the messages
// and ahead of them.
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

class DroppedRows {
 public:
  // All at once: a stage that leaves a row out must not then find one that sees it. Rows of Steps
  // that have passed are forgotten.
  void add(std::span<const IssuedRow> rows) {
    const std::lock_guard lock(mutex_);
    for (const IssuedRow& row : rows) {
      if (row.step > passed_) rows_[row.step].push_back(row.row);
    }
  }
  // Takes them out of the message of their Step.
  void take_out(StageMessage& message) const {
    const std::lock_guard lock(mutex_);
    const auto found = rows_.find(message.step);
    if (found != rows_.end()) message.drop_rows(found->second);
  }
  // No stage that asks here will see Step `step`, or one before it, again.
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
