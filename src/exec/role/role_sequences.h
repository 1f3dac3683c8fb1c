// The sequences of a role: open ones, ready ones, the number that decode, and closed ones until
// their last Steps have retired.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/id_map.h"
#include "exec/role/role_sequence.h"
#include "exec/role/row_taps.h"
#include "kv/block_pool.h"
#include "kv/prefix_cache.h"
#include "step/types.h"
#include "step/work.h"

namespace forerun {

class RoleSequences {
 public:
  // The pointed-to objects must outlive this one. `head_dim` and `tap_places` are as in
  // RoleSequence.
  RoleSequences(Role role, BlockPool* pool, PrefixCache* cache, int32_t head_dim,
                TapPlaces* tap_places)
      : role_(role), pool_(pool), cache_(cache), head_dim_(head_dim), tap_places_(tap_places) {}

  // `id` must not be open.
  void open(SequenceId id, const SequenceSpec& spec);
  // Returns null if the sequence is not open.
  RoleSequence* find(SequenceId id) { return sequences_.find(id); }
  // Closes a sequence. Its blocks are freed when the last Step that can touch them has retired.
  void close(RoleSequence& sequence);
  // Frees the blocks of a closed sequence, whose last Step must have retired.
  void forget_closed(RoleSequence& sequence);
  // Returns whether closed sequences still hold blocks.
  bool has_closed() const { return !closed_.empty(); }

  // Notes whether the sequence submits items without waiting for results (WorkItem::tells_entry).
  void set_follows(RoleSequence& sequence, bool follows);
  // Records that the sequence's prompt has been read.
  void set_decodes(RoleSequence& sequence);
  // Return the number of decoding sequences, and the number of those that submit items without
  // waiting.
  int32_t decoding() const { return decoding_; }
  int32_t following() const { return following_; }

  // Appends the sequence to ready(), unless it is queued already or has nothing to run.
  void enqueue(RoleSequence& sequence);
  // Returns the sequences with an item to run, in the order of enqueue(); empty after take_ready().
  // Valid until enqueue(), take_ready() or close().
  std::span<RoleSequence* const> ready() const { return ready_; }
  // Replaces `taken` by all of ready(). Each sequence's `is_queued` stays set: the caller runs its
  // next rows, or keeps the sequence until it does.
  void take_ready(std::vector<RoleSequence*>& taken);

 private:
  // Adds the sequence to the counts (`by` 1), or removes it (-1).
  void count(const RoleSequence& sequence, int32_t by);

  const Role role_;
  BlockPool* const pool_;
  PrefixCache* const cache_;
  const int32_t head_dim_;
  TapPlaces* const tap_places_;
  IdMap<RoleSequence> sequences_;
  std::vector<std::unique_ptr<RoleSequence>> closed_;  // with Steps in flight
  std::vector<RoleSequence*> ready_;
  uint64_t openings_ = 0;  // sequences opened so far
  int32_t decoding_ = 0;
  int32_t following_ = 0;
};

}  // namespace forerun
