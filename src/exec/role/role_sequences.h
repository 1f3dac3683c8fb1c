// The sequences of a role: those that are open, those that are ready, how many of them decode, and
// closed ones until their last Steps have retired.
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
  // Everything pointed to must outlive the object. `head_dim`, `tap_places`: as RoleSequence's.
  RoleSequences(Role role, BlockPool* pool, PrefixCache* cache, int32_t head_dim,
                TapPlaces* tap_places)
      : role_(role), pool_(pool), cache_(cache), head_dim_(head_dim), tap_places_(tap_places) {}

  // `id` is not open.
  void open(SequenceId id, const SequenceSpec& spec);
  // Null where the sequence is not open.
  RoleSequence* find(SequenceId id) { return sequences_.find(id); }
  // A closed sequence's blocks return when the last Step that can touch them has retired.
  void close(RoleSequence& sequence);
  // Gives back the blocks of a closed sequence, whose last Step has retired.
  void forget_closed(RoleSequence& sequence);
  // Whether closed sequences still hold blocks.
  bool has_closed() const { return !closed_.empty(); }

  // Notes that the sequence's items follow each other (WorkItem::tells_entry), or do not.
  void set_follows(RoleSequence& sequence, bool follows);
  // Notes that the sequence's prompt has been read.
  void set_decodes(RoleSequence& sequence);
  // How many sequences decode; and how many of them have items that follow each other.
  int32_t decoding() const { return decoding_; }
  int32_t following() const { return following_; }

  // Appends the sequence to ready(), unless it is queued already or has nothing to run.
  void enqueue(RoleSequence& sequence);
  // Sequences whose next item is to be run, in the order of enqueue(); empty after take_ready().
  // Valid until enqueue(), take_ready() or close().
  std::span<RoleSequence* const> ready() const { return ready_; }
  // Moves all of ready() into `taken`, whose entries are replaced. Each sequence's `is_queued`
  // stays set: the caller runs its next rows, or keeps the sequence until it does.
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
  std::vector<std::unique_ptr<RoleSequence>> closed_;  // closed sequences with Steps under way
  std::vector<RoleSequence*> ready_;
  uint64_t openings_ = 0;  // sequences opened so far
  int32_t decoding_ = 0;
  int32_t following_ = 0;
};

}  // namespace forerun
