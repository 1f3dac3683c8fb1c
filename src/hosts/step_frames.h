// The structs that frames of Steps carry besides a StageMessage and tasks, and their fields.
#pragma once

#include "exec/step_runner.h"
#include "wire/bytes.h"

namespace forerun {

// kDrop carries a list of them.
template <class Visitor>
void visit_fields(Visitor& visit, MaybeConst<IssuedRow> auto& row) {
  visit("step", row.step);
  visit("row", row.row);
}

}  // namespace forerun
