// The history that each KV slot of a role represents, as its hash: mix_hash() over its tokens from
// 0 on (simulation/acceptance_model.h). Steps and moves update it as they update the KV cache.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "simulation/acceptance_model.h"
#include "step/step.h"

namespace forerun {

class SlotHistories {
 public:
  explicit SlotHistories(int64_t kv_blocks)
      : histories_(static_cast<size_t>(kv_blocks * kKvBlockTokens)) {}

  int64_t kv_blocks() const { return static_cast<int64_t>(histories_.size()) / kKvBlockTokens; }

  // Returns the history before the row; 0 before the first token. The rows that it attends to must
  // have been appended.
  uint64_t before(const Step& step, const StepRow& row) const {
    if (row.visible == 1) return 0;
    const int32_t position = row.visible - 2;
    const int32_t slot =
        position < row.boundary
            ? position
            : step.ancestors[static_cast<size_t>(row.ancestor_begin + position - row.boundary)];
    return histories_[index(step.sequences[static_cast<size_t>(row.sequence_idx)], slot)];
  }
  // Returns the row's history, its own token included, and writes it to the row's slot, if it has
  // one.
  uint64_t append(const Step& step, const StepRow& row) {
    const uint64_t history = mix_hash(before(step, row), static_cast<uint64_t>(row.token));
    if (row.slot != kNoSlot) {
      histories_[index(step.sequences[static_cast<size_t>(row.sequence_idx)], row.slot)] = history;
    }
    return history;
  }
  // Moves entries. Both columns ascend and every move goes to a lower slot, so no source is
  // overwritten before it is read.
  void move(const StepSequence& sequence, std::span<const KvMove> moves) {
    for (const KvMove& each : moves) {
      histories_[index(sequence, each.to_slot)] = histories_[index(sequence, each.from_slot)];
    }
  }

 private:
  static size_t index(const StepSequence& sequence, int32_t slot) {
    const int64_t block = sequence.block_table[slot / kKvBlockTokens];
    return static_cast<size_t>(block * kKvBlockTokens + slot % kKvBlockTokens);
  }

  std::vector<uint64_t> histories_;  // indexed by physical slot
};

}  // namespace forerun
