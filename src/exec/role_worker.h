// One role's queue and bookkeeping: merges the ready items of all sequences into Steps, runs them,
// and splits what comes back into results. The single-threaded heart of the real executor.
//
// A Step takes at most one item with rows of each sequence: first of sequences that decode or
// verify, then of those that read prompts. Prompts are read in consecutive pieces whose length the
// scheduler sets, so a long prompt delays others by only a part of a Step at a time.
//
// An item that finds no KV blocks stays queued, and a result says so
// (WorkResult::waits_for_memory): the caller decides which sequence gives its blocks back.
//
// Sequences that share prefixes (SequenceSpec) take over cached full blocks of their beginning,
// from running or ended sequences: those rows are not run. Where another sequence of the Step is
// just computing the next block, a sequence waits for it.
//
// Over a pipeline of stages several Steps are under way, and step() is split into issue() and
// retire(). All bookkeeping is done here when a Step is issued, as if it had run at once; stages
// take Steps in the same order (exec/stages). A sequence's further items are issued before the
// first of them has come back, unless its sampler looks at the history. Requests that wait for each
// result are spread evenly over the Steps, so that every stage has work. Requests whose items
// follow each other (WorkItem::tells_entry) have rows for every Step: all that are ready share the
// next Step, which takes as many of their rows as are nearly free, and is issued only once the
// first stage is free, so that they stay together. Prompts go in pieces that fill the pipeline.
//
// Rows of a sequence with a constraint go into a Step only once their masks are ready. Masks that
// take little work are made while the Step is built, within a budget for the Step. A sequence that
// waits for a late mask is left out, and gets its turn when the mask is ready. Guesses that need
// not be run (WorkRow::chance) are left out where their masks are late, so that the sequence does
// not wait for them.
//
// Used by one thread at a time, except usage().
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <vector>

#include "base/id_map.h"
#include "exec/executor.h"
#include "exec/guess_rows.h"
#include "exec/role_sequence.h"
#include "exec/step_builder.h"
#include "exec/step_record.h"
#include "exec/step_runner.h"
#include "exec/step_scheduler.h"
#include "exec/step_under_way.h"
#include "kv/block_pool.h"
#include "kv/prefix_cache.h"
#include "step/work.h"

namespace forerun {

class RoleWorker {
 public:
  // `runner` must outlive the worker. `on_step` may be empty; it is called after every Step on the
  // worker's thread, with items and CPU time if `trace`.
  RoleWorker(Role role, StepRunner* runner, const StepScheduler& scheduler,
             std::function<void(const StepRecord&)> on_step, bool trace = false);

  // `sequence` is not open.
  void open(SequenceId sequence, const SequenceSpec& spec);
  // Items of sequences that are not open are dropped.
  void submit(PendingItem&& item);
  void close(SequenceId sequence);
  // Whether step() has something to do.
  bool ready() const { return !ready_.empty() || memory_has_returned() || masks_have_come(); }
  // Whether work waits for masks: the caller must ask ready() again, since no event tells when a
  // mask has come.
  bool waits_for_masks() const { return !late_.empty(); }
  // Whether there is work to run other than prompts.
  bool decodes() const;
  // Requests whose prompt has been read.
  int32_t decoding_sequences() const { return decoding_sequences_; }
  // Applies edits that are due and runs at most one Step; appends what has finished.
  // `held_up`: requests that decode and whose target waits for this Step, the draft's, to end.
  // `meanwhile` goes with the Step, if there is one.
  void step(std::vector<FinishedItem>& finished, int64_t held_up = 0,
            const Meanwhile& meanwhile = {});

  // Only for a runner with stages. `tell` gets the events of the Steps that are issued, on the
  // runner's threads; the caller hands them to handle() on the worker's thread.
  void set_pipelined(std::function<void(PipelineEvent)> tell);
  bool is_pipelined() const { return pipeline_ != nullptr; }
  // Whether there is work and room for a Step: at the first stage, and in the pipeline.
  bool may_issue() const {
    const size_t max_at_entry = following_sequences_ > 0 ? 1 : kMaxAtEntry;
    return ready() && under_way_.size() - entered_ < max_at_entry &&
           under_way_.size() < kMaxUnderWay * static_cast<size_t>(pipeline_->num_stages());
  }
  // The first half of step(): issues a Step, whose results handle() appends later. Returns whether
  // one was issued.
  bool issue(std::vector<FinishedItem>& finished);
  // Appends entry notices, or the results of a Step that has retired.
  void handle(PipelineEvent&& event, std::vector<FinishedItem>& finished);
  // The number of Steps that have been issued and not retired. Later edits may drop rows of these
  // Steps before they have been run, where their items allow it.
  size_t steps_under_way() const { return under_way_.size(); }

  KvUsage usage() const;
  // Runs one Step of `sequences` sequences, each with `rows` tree rows behind a prefix of
  // `context_tokens` whose KV is whatever the storage holds, and says how long it took. In a Step
  // of more than kMeasuredWants rows only the first rows of each sequence want something: target
  // rows are sampled; draft rows give 16 candidates. kResourceExhausted where the KV is too small.
  // Nothing may be queued, nor any sequence be open.
  Result<StepRecord> measure(int32_t rows, int32_t context_tokens, int32_t sequences);
  static constexpr int32_t kMeasuredWants = 128;
  // How many steps (TokenConstraint::prepare) may go to masks while a Step is built: some half a
  // millisecond.
  static constexpr int64_t kMaskStepsOfStep = 50'000;
  // Most rows of prompts that a Step scores (SamplingParams::prompt_logprobs), a little more where
  // short prompts end: their logits are whole rows of the vocabulary, half a megabyte each where
  // that is large.
  static constexpr int32_t kMaxScoredRows = kKvBlockTokens;

 private:
  void forget(SequenceId sequence);
  // Adds the sequence to the worker's counts (`by` 1), or removes it (-1).
  void count(const RoleSequence& sequence, int32_t by);
  // Whether the Step being built takes the next rows of a sequence that decodes.
  bool has_room_for(const RoleSequence& sequence) const;
  bool take_turn(RoleSequence& sequence, std::vector<FinishedItem>& finished);
  // Both finish the next item without a Step: with its result, or with a failure.
  void finish_next(RoleSequence& sequence, std::vector<FinishedItem>& finished);
  void fail_next(RoleSequence& sequence, const Status& status, std::vector<FinishedItem>& finished);
  void finish(RoleSequence& sequence, PendingItem& item, std::vector<FinishedItem>& finished);
  Status apply_edits(RoleSequence& sequence, const std::vector<Edit>& edits);
  // Skips prefix rows at the front of the item whose KV is cached. True where another sequence of
  // the Step computes the next block: it will be cached after it.
  bool reuse_prefix(RoleSequence& sequence, PendingItem& item);
  // A block of a shared prefix: its text's first row, and the text before.
  struct BlockInWork {
    uint64_t before = 0;
    const WorkRow* rows = nullptr;
  };
  static BlockInWork next_block(const RoleSequence& sequence, const PendingItem& item);
  int32_t piece_rows(const RoleSequence& sequence, const PendingItem& item, bool is_prompt) const;
  void mark_overdue();
  void compose(std::vector<FinishedItem>& finished, int64_t held_up);
  // Leaves out items of the draft that are not worth a Step (StepScheduler::draft_items()).
  void leave_out_drafts(int64_t held_up, std::vector<FinishedItem>& finished);
  // Leaves out rows of guesses that are not worth it (GuessRows), of the verifications among the
  // first `decoding` turns.
  void leave_out_guesses(size_t decoding);
  bool apply_due_edits(RoleSequence& sequence, std::vector<FinishedItem>& finished);
  void wait_for_memory(RoleSequence& sequence, const Status& status,
                       std::vector<FinishedItem>& finished);
  bool memory_has_returned() const {
    return !out_of_memory_.empty() &&
           (closed_since_out_of_memory_ || pool_.free_blocks() > free_when_out_of_memory_);
  }
  static bool is_late(const RoleSequence* sequence);
  bool masks_have_come() const;
  // Fills PendingItem::constrained of an item that is about to begin.
  void find_states(RoleSequence& sequence, PendingItem& item);
  // Once the masks of all rows that must be run are there, removes guesses whose masks are not.
  // False where a mask of a row that must be run is late.
  bool leave_out_late_guesses(RoleSequence& sequence, PendingItem& item);
  // Asks for the masks of the item's next `count` rows; returns whether all of them are there.
  bool has_masks(RoleSequence& sequence, PendingItem& item, int32_t count);
  MaskState prepare_mask(const RoleSequence& sequence, const PendingItem& item, size_t row_idx);
  void wait_for_mask(RoleSequence& sequence);
  // Composes a Step into a free one. Null where there is nothing to run.
  std::unique_ptr<StepUnderWay> compose_step(std::vector<FinishedItem>& finished, int64_t held_up);
  // Finishes the items of a Step that has run or failed, reports the Step and frees it.
  void retire(std::unique_ptr<StepUnderWay> step, const Status& status,
              std::vector<FinishedItem>& finished);
  // Fails all items of a sequence that has failed, once no rows of it are under way.
  void fail_all(RoleSequence& sequence, std::vector<FinishedItem>& finished);
  void give_turn(RoleSequence& sequence);
  // Marks rows of the sequence, under way or waiting, that edits of waiting items drop.
  void drop_rows(const RoleSequence& sequence);
  void forget_closed(RoleSequence& sequence);
  void report(const StepUnderWay& step, const StepLoad& load);
  int32_t max_prompt_rows(int32_t left) const;
  std::string describe(const RoleSequence& sequence) const;
  // Writes the slots of a scratch sequence's context, as a prompt would have.
  Status write_scratch(const RoleSequence& sequence, int32_t context_tokens);
  // A scratch sequence for measure(), with the context's blocks and an item of these rows.
  Status open_scratch(SequenceId id, int32_t rows, int32_t context_tokens, int32_t wants);

  const Role role_;
  StepRunner* runner_;
  const StepScheduler scheduler_;
  std::function<void(const StepRecord&)> on_step_;
  const bool trace_;
  BlockPool pool_;
  PrefixCache prefix_cache_;
  IdMap<RoleSequence> sequences_;
  int32_t decoding_sequences_ = 0;   // whose prompt has been read
  int32_t following_sequences_ = 0;  // of them, those whose items follow each other
  uint64_t openings_ = 0;            // so far
  uint64_t closings_ = 0;
  std::vector<RoleSequence*> ready_;          // sequences with items, in the order of their turns
  std::vector<RoleSequence*> out_of_memory_;  // sequences with items that found no blocks
  int64_t free_when_out_of_memory_ = 0;       // the least
  bool closed_since_out_of_memory_ = false;
  // Sequences whose next rows wait for masks, in the order of their turns.
  std::vector<RoleSequence*> late_;
  // Counts of the Step being built.
  int32_t max_waiting_ = 0;         // sequences that wait for each result
  int32_t waiting_served_ = 0;      // of them so far
  int32_t max_following_rows_ = 0;  // of sequences whose items follow each other
  int32_t following_rows_ = 0;      // so far
  double prompt_budget_seconds_ = 0.0;
  int32_t prompt_rows_ = 0;
  int32_t rows_for_prompts_ = 0;  // that decoding leaves to them
  int32_t scored_rows_ = 0;       // of prompts
  int64_t mask_steps_ = 0;        // steps that this Step may still spend on masks
  // A sequence that is ready while a Step is built. Decoding ones are ordered by their turns,
  // prompts by their arrival.
  struct Turn {
    bool prompt = false;
    bool is_overdue = false;  // goes first among prompts or decoding rows, whatever its priority
    int32_t priority = 0;
    uint64_t order = 0;
    RoleSequence* sequence = nullptr;
  };
  std::vector<Turn> turns_;
  int32_t steps_since_overdue_ = 0;  // Steps since the last overdue turn
  GuessRows guesses_;
  std::vector<DraftOffer> offers_;           // scratch
  std::vector<BlockInWork> blocks_in_work_;  // in part or in whole
  std::vector<TokenId> tokens_;              // scratch
  std::vector<IssuedRow> rows_to_drop_;      // scratch
  const int32_t head_dim_;
  std::vector<KvMove> moves_;
  StepUnderWay* composed_ = nullptr;                  // the Step being composed, while there is one
  std::vector<std::unique_ptr<StepUnderWay>> spare_;  // for their memory
  // With stages.
  static constexpr size_t kMaxAtEntry = 2;  // one at the first stage, one that waits for it
  // Steps for each stage: one that it works on and one on the link to it.
  static constexpr size_t kMaxUnderWay = 2;
  PipelinedRunner* pipeline_ = nullptr;
  std::function<void(PipelineEvent)> tell_;
  std::deque<std::unique_ptr<StepUnderWay>> under_way_;  // as they were issued
  size_t entered_ = 0;  // Steps among them that have left the first stage
  std::vector<std::unique_ptr<RoleSequence>> closed_;  // with Steps under way
};

}  // namespace forerun
