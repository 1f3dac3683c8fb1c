// The composition of a Step: the choice of sequences and of the number of their rows.
//
// Sequences that decode or verify come first, then prompts, in consecutive pieces whose length the
// scheduler sets. Sequences without room keep their place among the ready ones; served ones go to
// the back. Requests that wait for each result are spread evenly over a pipeline's Steps, so that
// every stage has work. Requests that submit items without waiting share a Step, which takes as
// many of their rows as are nearly free.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "exec/role/item_finisher.h"
#include "exec/role/mask_waits.h"
#include "exec/role/memory_waits.h"
#include "exec/role/pending_item.h"
#include "exec/role/prefix_reuse.h"
#include "exec/role/role_sequence.h"
#include "exec/role/role_sequences.h"
#include "exec/role/sequence_edits.h"
#include "exec/role/speculation_filter.h"
#include "exec/role/step_queue.h"
#include "exec/role/step_under_way.h"
#include "exec/step_scheduler.h"
#include "forerun/status.h"
#include "kv/block_pool.h"

namespace forerun {

class StepComposer {
 public:
  // The largest number of prompt rows that a Step scores (SamplingParams::prompt_logprobs), or a
  // few more if short prompts end: their logits are whole rows of the vocabulary, up to half a
  // megabyte each.
  static constexpr int32_t kMaxScoredRows = kKvBlockTokens;

  // The pointed-to objects must outlive the composer.
  struct Parts {
    const StepScheduler* scheduler = nullptr;
    RoleSequences* sequences = nullptr;
    SequenceEdits* edits = nullptr;
    ItemFinisher* finisher = nullptr;
    const BlockPool* pool = nullptr;
    const FeatureRows* features = nullptr;  // features of a trained head's rows, else null
    bool traces = false;                    // Steps note the requests of their rows
  };
  explicit StepComposer(const Parts& parts);

  // The limits of a Step.
  struct Limits {
    int32_t stages = 0;          // pipeline stages; 0 if there are none
    int32_t waiting = 0;         // sequences that wait for each result
    int32_t following_rows = 0;  // rows of sequences that submit items without waiting
  };
  // Adds to `step`, which must be empty, the rows of the ready sequences, after their edits.
  // `held_up` is the number of decoding requests whose target waits for this draft Step. Appends
  // items that end without a Step, and notices, to `finished`.
  void compose(StepUnderWay& step, const Limits& limits, int64_t held_up,
               std::vector<FinishedItem>& finished);

  // Returns whether compose() has work.
  bool ready() const {
    return !sequences_.ready().empty() || memory_.has_returned() || masks_.has_come();
  }
  bool waits_for_masks() const { return masks_.any(); }
  // Must be called before a sequence is closed. With null (the sequence is not open) it only counts
  // the call.
  void note_closing(RoleSequence* sequence);
  // Records that a closed sequence has freed its blocks.
  void note_blocks_returned() { memory_.note_closed(); }

 private:
  // The used and the remaining room of the current Step.
  struct Counts {
    int32_t waiting_served = 0;  // sequences that wait for each result
    int32_t following_rows = 0;
    int32_t prompt_rows = 0;
    int32_t scored_rows = 0;       // scored rows of prompts
    int32_t rows_for_prompts = 0;  // rows that decoding reserves for prompts
    // Prompts take what rows of sequences whose items follow each other leave of the nearly free
    // ones.
    bool prompts_fill_up = false;
    double prompt_budget_seconds = 0.0;
  };

  void take_entries(std::span<const StepQueue::Entry> entries, std::vector<FinishedItem>& finished);
  // Returns whether the Step takes the next rows of a decoding sequence.
  bool has_room_for(const RoleSequence& sequence) const;
  bool take_rows(RoleSequence& sequence, std::vector<FinishedItem>& finished);
  bool apply_due_edits(RoleSequence& sequence, std::vector<FinishedItem>& finished);
  int32_t max_prompt_rows(int32_t left) const;
  // Whether prompts are short enough to fill up the Steps of sequences whose items follow each
  // other; longer ones are read in Steps that last longer.
  bool prompts_fill_up() const;
  int32_t rows_left_over(const RoleSequence& prompt, int32_t left) const;
  int32_t piece_rows(const RoleSequence& sequence, const PendingItem& item, bool is_prompt) const;
  int32_t row_limit(const RoleSequence& sequence, const PendingItem& item, bool is_prompt) const;
  Status add_piece(RoleSequence& sequence, PendingItem& item, int32_t count, bool is_prompt);
  void wait_for_memory(RoleSequence& sequence, const Status& status,
                       std::vector<FinishedItem>& finished);

  const StepScheduler& scheduler_;
  RoleSequences& sequences_;
  SequenceEdits& edits_;
  ItemFinisher& finisher_;
  const FeatureRows* const features_;
  const bool traces_;
  StepQueue queue_;
  PrefixReuse prefixes_;
  MaskWaits masks_;
  MemoryWaits memory_;
  SpeculationFilter filter_;
  uint64_t closings_ = 0;  // number of closed sequences so far
  // Set while compose() runs.
  StepUnderWay* step_ = nullptr;
  Limits limits_;
  Counts counts_;
  std::vector<RoleSequence*> ready_;  // before StepQueue orders them
};

}  // namespace forerun
