// Which rows' token masks are there (TokenConstraint::prepare), and which sequences wait for one.
//
// Masks that take little work are made while a Step is built, within a budget for the Step. A
// sequence whose next rows lack a mask that takes longer is ready again once the mask is there.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "exec/role/pending_item.h"
#include "exec/role/role_sequence.h"
#include "step/work.h"

namespace forerun {

class MaskWaits {
 public:
  // How many steps (TokenConstraint::prepare) may go to masks while a Step is built: some half a
  // millisecond.
  static constexpr int64_t kStepsOfStep = 50'000;

  // Another Step is being built: its budget is whole.
  void begin_step() { steps_ = kStepsOfStep; }
  // Puts the sequences whose masks have come in front of `ready`, in the order in which they
  // waited.
  void take(std::vector<RoleSequence*>& ready);
  // Whether a sequence waits.
  bool any() const { return !late_.empty(); }
  // Whether the mask of one that waits has come.
  bool has_come() const;
  void forget(RoleSequence& sequence) { std::erase(late_, &sequence); }

  // Fills PendingItem::constrained of an item that is about to begin.
  static void find_states(RoleSequence& sequence, PendingItem& item);
  // Once the masks of all rows that must be run are there, removes guesses whose masks are not.
  // False where a mask of a row that must be run is late: the sequence waits.
  bool leave_out_late_guesses(RoleSequence& sequence, PendingItem& item);
  // Asks for the masks of the item's next `count` rows. False where one is late: the sequence
  // waits.
  bool has_masks(RoleSequence& sequence, PendingItem& item, int32_t count);

 private:
  static bool is_late(const RoleSequence* sequence);
  MaskState prepare(const RoleSequence& sequence, const PendingItem& item, size_t row_idx);
  void wait(RoleSequence& sequence);

  std::vector<RoleSequence*> late_;  // in the order in which they began to wait
  int64_t steps_ = 0;                // left for this Step
};

}  // namespace forerun
