// Finishes the items of a role's sequences: their results, the failure of their sequence, or
// notices before either.
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
  // The sequence fails, with the status. The next item's result comes after those of items that are
  // under way.
  void fail_next(RoleSequence& sequence, const Status& status, std::vector<FinishedItem>& finished);
  // Fails all items of a sequence that has failed and has no rows under way.
  void fail_all(RoleSequence& sequence, std::vector<FinishedItem>& finished);
  // The status, with the role and sequence that it is about.
  Status in_context(const Status& status, const RoleSequence& sequence) const {
    return status.with_context(describe(role_, sequence));
  }
  // A notice about an item that is not finished: a result without rows.
  FinishedItem notice(const RoleSequence& sequence, const PendingItem& item) const;

 private:
  const Role role_;
  RoleSequences* const sequences_;
};

}  // namespace forerun
