// The rows of a trained head's items. Each starts from the hidden state of the token before it: the
// target's, where that token is text or the guess is its first, otherwise the head's own
// (StepFeature). The target's are found by the text: the items of both roles name nodes of their
// own.
//
// Hidden states are kept for a while only (row_taps.h), and those of rows whose KV was cached were
// never computed here. Where one is missing, the head's prefix begins anew behind it: its guesses
// get worse for a while, the text does not depend on them.
#pragma once

#include <cstddef>
#include <cstdint>

#include "exec/role/pending_item.h"
#include "exec/role/role_sequence.h"
#include "exec/role/role_sequences.h"
#include "step/step.h"

namespace forerun {

class FeatureRows {
 public:
  // `target`: the sequences of the head's target, whose worker runs on the same thread.
  explicit FeatureRows(RoleSequences* target) : target_(*target) {}

  // Called before an item's first rows are run. Passes over the row of the text's first token,
  // which has no hidden state before it. False where the item's first guess cannot start: it is
  // then left out (WorkResult::left_out).
  bool begin(RoleSequence& sequence, PendingItem& item) const;
  // Passes over prefix rows whose hidden states are gone, and all in front of them. False where no
  // row of the item is left to run.
  bool pass_over_missing(RoleSequence& sequence, PendingItem& item) const;
  // What the row, which is the item's next one, starts from. A sequence that the target does not
  // know is one of StepMeasurer's: its rows start from any place.
  StepFeature feature_of(const RoleSequence& sequence, const PendingItem& item,
                         size_t row_idx) const;
  // The item's rows so far are in a Step: the hidden states that no further row starts from are
  // forgotten, except for the last ones.
  void forget_used(const RoleSequence& sequence) const;

 private:
  // The place of the target's hidden states of the text's token at `position`; -1 where they are
  // gone.
  int32_t find_tap(const RoleSequence& target, const RoleSequence& sequence,
                   const PendingItem& item, int32_t position) const;

  RoleSequences& target_;
};

}  // namespace forerun
