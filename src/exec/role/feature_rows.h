// The features of a trained head's rows. Each row starts from the hidden state of the token before
// it: the target's, if that token is verified or the row is the first guess, otherwise the head's
// own (StepFeature). The target's states are found by position, because the items of the two roles
// name different nodes.
//
// Hidden states are kept for a while only (row_taps.h), and those of rows with cached KV were never
// computed here. If one is missing, the head's prefix restarts behind it: its guesses get worse for
// a while, but the output does not depend on them.
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
  // `target` has the sequences of the head's target, which must run on the same thread.
  explicit FeatureRows(RoleSequences* target) : target_(*target) {}

  // Prepares an item before its first rows run. Skips the row of the sequence's first token, which
  // has no hidden state before it. Returns false if the item's first guess cannot start; the item
  // is then left out (WorkResult::left_out).
  bool begin(RoleSequence& sequence, PendingItem& item) const;
  // Skips prefix rows with missing hidden states, and all rows before them. Returns false if no row
  // of the item remains.
  bool pass_over_missing(RoleSequence& sequence, PendingItem& item) const;
  // Returns the feature of the row, which is the item's next one. A sequence that the target does
  // not know belongs to StepMeasurer; its rows start from any place.
  StepFeature feature_of(const RoleSequence& sequence, const PendingItem& item,
                         size_t row_idx) const;
  // Drops the hidden states that no further row starts from, except for the last ones, once the
  // item's rows so far are in a Step.
  void forget_used(const RoleSequence& sequence) const;

 private:
  // Returns the place of the target's hidden states of the token at `position`, or -1 if they are
  // gone.
  int32_t find_tap(const RoleSequence& target, const RoleSequence& sequence,
                   const PendingItem& item, int32_t position) const;

  RoleSequences& target_;
};

}  // namespace forerun
