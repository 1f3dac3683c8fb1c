// The distribution of a Step's results to the items of its rows.
#pragma once

#include <cstddef>

#include "exec/role/step_under_way.h"
#include "exec/step_runner.h"
#include "forerun/status.h"
#include "step/types.h"

namespace forerun {

class StepResults {
 public:
  // `status` is the Step's own. `step` must outlive the object.
  StepResults(Role role, const StepUnderWay& step, const Status& status)
      : role_(role), step_(step), status_(status) {}

  // Returns the outcome of the next piece, in the order of pieces: a failure of the Step or of one
  // of the piece's tasks. Marks the faulty rows (RowResult::status) and the results of dropped rows
  // in its item.
  Status take(const StepUnderWay::Piece& piece);

 private:
  Status take_task(const StepUnderWay::Piece& piece, const RowTask& task);

  const Role role_;
  const StepUnderWay& step_;
  const Status& status_;
  // Tasks and rejections are in the order of the pieces.
  size_t next_task_ = 0;
  size_t next_rejection_ = 0;
};

}  // namespace forerun
