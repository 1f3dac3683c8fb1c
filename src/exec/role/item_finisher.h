// The end of items of a role's sequences: their results, their sequence's failure, and notices
// before either.
#pragma once

#include <string>
#include <vector>

#include "exec/role/pending_item.h"
#include "exec/role/role_sequence.h"
#include "exec/role/role_sequences.h"
#include "forerun/status.h"
#include "step/types.h"

namespace forerun {

class ItemFinisher {
 public:
  // `sequences` must outlive the object.
  ItemFinisher(Role role, RoleSequences* sequences) : role_(role), sequences_(sequences) {}

  // Appends the item's result, or the failure of its sequence, to `finished`. Items without rows
  // have no result.
  void finish(RoleSequence& sequence, PendingItem& item, std::vector<FinishedItem>& finished);
  // Finishes the next item without a Step, and removes it from the queue.
  void finish_next(RoleSequence& sequence, std::vector<FinishedItem>& finished);
  // Makes the sequence fail with the status. The next item's result comes after those of items in
  // flight.
  void fail_next(RoleSequence& sequence, const Status& status, std::vector<FinishedItem>& finished);
  // Fails all items of a failed sequence without rows in flight.
  void fail_all(RoleSequence& sequence, std::vector<FinishedItem>& finished);
  // Returns the status with its role and sequence.
  Status in_context(const Status& status, const RoleSequence& sequence) const {
    return status.with_context(describe(role_, sequence));
  }
  // Returns a notice about an unfinished item: a result without rows.
  FinishedItem notice(const RoleSequence& sequence, const PendingItem& item) const;

 private:
  const Role role_;
  RoleSequences* const sequences_;
};

}  // namespace forerun
