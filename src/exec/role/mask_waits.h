// The sequences that wait for token masks (TokenConstraint::prepare), and the check whether rows'
// masks are ready.
//
// Cheap masks are computed while a Step is composed, within a budget per Step. A sequence whose
// next rows need a more expensive mask becomes ready again once the mask is there.
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
  // The budget of work (TokenConstraint::prepare) for masks while a Step is composed: about half a
  // millisecond.
  static constexpr int64_t kStepsOfStep = 50'000;

  // Restores the budget for the next Step.
  void begin_step() { steps_ = kStepsOfStep; }
  // Inserts the sequences with finished masks at the front of `ready`, in the order in which they
  // waited.
  void take(std::vector<RoleSequence*>& ready);
  // Returns whether a sequence waits.
  bool any() const { return !late_.empty(); }
  // Returns whether the mask of a waiting sequence is ready.
  bool has_come() const;
  void forget(RoleSequence& sequence) { std::erase(late_, &sequence); }

  // Fills PendingItem::constrained of an item that is about to begin.
  static void find_states(RoleSequence& sequence, PendingItem& item);
  // Removes guesses with late masks, once the masks of all required rows are ready. Returns false
  // if the mask of a required row is late: the sequence waits.
  bool leave_out_late_guesses(RoleSequence& sequence, PendingItem& item);
  // Asks for the masks of the item's next `count` rows. Returns false if one is late: the sequence
  // waits.
  bool has_masks(RoleSequence& sequence, PendingItem& item, int32_t count);

 private:
  static bool is_late(const RoleSequence* sequence);
  MaskState prepare(const RoleSequence& sequence, const PendingItem& item, size_t row_idx);
  void wait(RoleSequence& sequence);

  std::vector<RoleSequence*> late_;  // in the order in which they began to wait
  int64_t steps_ = 0;                // budget left for this Step
};

}  // namespace forerun
