// One role's queue of work: merges the ready items of all sequences into Steps, runs the Steps, and
// splits what comes back into results. The single-threaded heart of the real executor.
//
// A Step takes at most one item with rows of each sequence: first of sequences that decode or
// verify, then of those that read prompts (step_composer.h). Prompts are read in consecutive pieces
// whose length the scheduler sets, so a long prompt delays others by only a part of a Step at a
// time.
//
// An item that finds no KV blocks stays queued, and a result says so
// (WorkResult::waits_for_memory): the caller decides which sequence gives its blocks back.
//
// Sequences that share prefixes (SequenceSpec) take over cached full blocks of their beginning,
// from running or ended sequences (prefix_reuse.h).
//
// Over a pipeline of stages several Steps are under way, and step() is split into issue() and
// handle(). All bookkeeping is done here when a Step is issued, as if it had run at once; stages
// take Steps in the same order (exec/stages). A sequence's further items are issued before the
// first of them has come back, unless its sampler looks at the history. While requests have items
// that follow each other (WorkItem::tells_entry), a Step is issued only once the first stage is
// free, so that they stay together. Rows that later edits drop need not be run (dropped_rows.h).
//
// Rows of a sequence with a constraint go into a Step only once their masks are ready
// (mask_waits.h).
//
// Used by one thread at a time, except usage().
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "exec/executor.h"
#include "exec/role/feature_rows.h"
#include "exec/role/item_finisher.h"
#include "exec/role/role_sequences.h"
#include "exec/role/row_taps.h"
#include "exec/role/sequence_edits.h"
#include "exec/role/step_composer.h"
#include "exec/role/step_measurer.h"
#include "exec/role/step_under_way.h"
#include "exec/step_record.h"
#include "exec/step_runner.h"
#include "exec/step_scheduler.h"
#include "kv/block_pool.h"
#include "kv/prefix_cache.h"
#include "step/work.h"

namespace forerun {

class RoleWorker {
 public:
  // `runner` must outlive the worker. `on_step` may be empty; it is called after every Step on the
  // worker's thread, with items and CPU time if `trace`. `target`: the target's worker, on the same
  // thread; only where the runner takes features.
  RoleWorker(Role role, StepRunner* runner, const StepScheduler& scheduler,
             std::function<void(const StepRecord&)> on_step, bool trace = false,
             RoleWorker* target = nullptr);

  // `sequence` is not open.
  void open(SequenceId sequence, const SequenceSpec& spec) { sequences_.open(sequence, spec); }
  // Items of sequences that are not open are dropped.
  void submit(PendingItem&& item);
  void close(SequenceId sequence);
  // Whether step() has something to do.
  bool ready() const { return composer_.ready(); }
  // Whether work waits for masks: the caller must ask ready() again, since no event tells when a
  // mask has come.
  bool waits_for_masks() const { return composer_.waits_for_masks(); }
  // Whether there is work to run other than prompts.
  bool decodes() const;
  // Requests whose prompt has been read.
  int32_t decoding_sequences() const { return sequences_.decoding(); }
  // Applies edits that are due and runs at most one Step; appends what has finished.
  // `held_up`: requests that decode and whose target waits for this Step, the draft's, to end.
  // `meanwhile` goes with the Step, if there is one.
  void step(std::vector<FinishedItem>& finished, int64_t held_up = 0,
            const Meanwhile& meanwhile = {});

  // Only for a runner with stages. `tell` gets the events of the Steps that are issued, on the
  // runner's threads; the caller hands them to handle() on the worker's thread.
  void set_pipelined(std::function<void(PipelineEvent)> tell);
  bool is_pipelined() const { return pipeline_ != nullptr; }
  // Whether there is work, and the first stage and the pipeline have room for another Step.
  bool may_issue() const;
  // The first half of step(): issues a Step, whose results handle() appends later. Returns whether
  // one was issued.
  bool issue(std::vector<FinishedItem>& finished);
  // Appends entry notices, or the results of a Step that has retired.
  void handle(PipelineEvent&& event, std::vector<FinishedItem>& finished);
  // The number of Steps that have been issued and not retired. Later edits may drop rows of these
  // Steps before they have been run, where their items allow it.
  size_t steps_under_way() const { return under_way_.size(); }

  KvUsage usage() const;
  // StepMeasurer::measure(). No Step may be under way.
  Result<StepRecord> measure(int32_t rows, int32_t context_tokens, int32_t sequences) {
    return measurer_.measure(rows, context_tokens, sequences, *spare_.front());
  }

 private:
  const FeatureRows* features() const { return features_ ? &*features_ : nullptr; }
  std::unique_ptr<StepUnderWay> make_step() const {
    return std::make_unique<StepUnderWay>(role_, runner_->config().vocab_size, features());
  }
  // Composes a Step into a free one. Null where there is nothing to run.
  std::unique_ptr<StepUnderWay> compose_step(const StepComposer::Limits& limits, int64_t held_up,
                                             std::vector<FinishedItem>& finished);
  // Appends notices of items whose last rows have left the first stage.
  void note_entry(const StepUnderWay& step, std::vector<FinishedItem>& finished) const;
  // Finishes the items of a Step that has run or failed, reports the Step and frees it.
  void retire(std::unique_ptr<StepUnderWay> step, const Status& status,
              std::vector<FinishedItem>& finished);
  // The piece's rows have run, with this outcome.
  void retire_piece(const StepUnderWay::Piece& piece, const Status& outcome,
                    std::vector<FinishedItem>& finished);

  const Role role_;
  StepRunner* const runner_;
  const StepScheduler scheduler_;
  std::function<void(const StepRecord&)> on_step_;
  const bool trace_;
  BlockPool pool_;
  PrefixCache prefix_cache_;
  TapPlaces tap_places_;
  RoleSequences sequences_;
  std::optional<FeatureRows> features_;  // only if the model is a trained head
  SequenceEdits edits_;
  ItemFinisher finisher_;
  StepComposer composer_;
  StepMeasurer measurer_;
  std::vector<std::unique_ptr<StepUnderWay>> spare_;  // Steps to use again, for their memory
  int64_t steps_run_ = 0;                             // Steps that step() has run
  // Null where the runner has no stages.
  PipelinedRunner* pipeline_ = nullptr;
  std::function<void(PipelineEvent)> tell_;
  StepsUnderWay under_way_;
  size_t entered_ = 0;                   // Steps of under_way_ that have left the first stage
  std::vector<IssuedRow> rows_to_drop_;  // scratch
};

}  // namespace forerun
