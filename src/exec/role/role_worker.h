// The work queue of one role: it merges the ready items of all sequences into Steps, runs the
// Steps, and splits their outcome into results. It is the single-threaded core of the real
// executor.
//
// A Step takes at most one item with rows per sequence: first sequences that decode or verify, then
// those that read prompts (step_composer.h). Prompts are read in consecutive pieces, and the
// scheduler sets their length, so a long prompt delays others by only a part of a Step at a time.
//
// An item that finds no KV blocks stays queued, and a result says so
// (WorkResult::waits_for_memory): the caller decides which sequence frees its blocks.
//
// Sequences that share prefixes (SequenceSpec) take over cached full blocks of their beginning,
// from running or ended sequences (prefix_reuse.h).
//
// With pipeline stages several Steps are in flight, and step() is split into issue() and handle().
// The worker does all bookkeeping when it issues a Step, as if the Step had run at once; stages
// take Steps in the same order (exec/stages). It issues a sequence's further items before the first
// result, unless the sampler reads the history. While requests submit items without waiting
// (WorkItem::tells_entry), it issues a Step only once the first stage is free, so that their rows
// share Steps, and not shortly before a result (pipeline_pace.h); entry notices wait as well. Rows
// that later edits drop need not run (dropped_rows.h).
//
// Rows of a sequence with a constraint go into a Step only once their masks are ready
// (mask_waits.h).
//
// Only one thread at a time may use a worker; any thread may call usage().
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
#include "exec/role/pipeline_pace.h"
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
  // `runner` must outlive the worker. `on_step` may be empty; it runs after every Step on the
  // worker's thread, with items and CPU time if `trace` is set. `target` is the target's worker, on
  // the same thread; only for a runner that takes features.
  RoleWorker(Role role, StepRunner* runner, const StepScheduler& scheduler,
             std::function<void(const StepRecord&)> on_step, bool trace = false,
             RoleWorker* target = nullptr);

  // `sequence` must not be open.
  void open(SequenceId sequence, const SequenceSpec& spec) { sequences_.open(sequence, spec); }
  // Drops items of sequences that are not open.
  void submit(PendingItem&& item);
  void close(SequenceId sequence);
  // Returns whether step() has work.
  bool ready() const { return composer_.ready(); }
  // Returns whether work waits for masks. The caller must then poll ready(), since no event says
  // when a mask is ready.
  bool waits_for_masks() const { return composer_.waits_for_masks(); }
  // Returns whether there is other work than prompts.
  bool decodes() const;
  // Returns the number of requests whose prompt has been read.
  int32_t decoding_sequences() const { return sequences_.decoding(); }
  // Applies due edits and runs at most one Step; appends the finished items. `held_up` is the
  // number of decoding requests whose target waits for this draft Step. `meanwhile` runs during the
  // Step, if there is one.
  void step(std::vector<FinishedItem>& finished, int64_t held_up = 0,
            const Meanwhile& meanwhile = {});

  // Only for a runner with stages. `tell` receives the events of issued Steps on the runner's
  // threads; the caller passes them to handle() on the worker's thread.
  void set_pipelined(std::function<void(PipelineEvent)> tell);
  bool is_pipelined() const { return pipeline_ != nullptr; }
  // Returns whether there is work, and the first stage and the pipeline have room for another Step.
  bool may_issue() const;
  // Issues a Step, as the first half of step(); handle() appends its results later. Returns whether
  // there was one.
  bool issue(std::vector<FinishedItem>& finished);
  // Appends entry notices, or the results of a retired Step.
  void handle(PipelineEvent&& event, std::vector<FinishedItem>& finished);
  // Returns the number of issued Steps that have not retired. Later edits may drop rows of these
  // Steps before they run, if their items allow it.
  size_t steps_under_way() const { return under_way_.size(); }

  KvUsage usage() const;
  // Calls StepMeasurer::measure(). No Step may be in flight.
  Result<StepRecord> measure(int32_t rows, int32_t context_tokens, int32_t sequences) {
    return measurer_.measure(rows, context_tokens, sequences, *spare_.front());
  }

 private:
  const FeatureRows* features() const { return features_ ? &*features_ : nullptr; }
  std::unique_ptr<StepUnderWay> make_step() const {
    return std::make_unique<StepUnderWay>(role_, runner_->config().vocab_size, features());
  }
  // Composes a Step into a free one. Returns null if there is nothing to run.
  std::unique_ptr<StepUnderWay> compose_step(const StepComposer::Limits& limits, int64_t held_up,
                                             std::vector<FinishedItem>& finished);
  // Whether the next result that is needed is so near that no Step should enter before it.
  bool result_is_due() const;
  // Appends notices of items whose last rows have left the first stage, unless a result is due.
  void note_entries(std::vector<FinishedItem>& finished);
  void note_entry(const StepUnderWay& step, std::vector<FinishedItem>& finished) const;
  // Finishes the items of a Step that has run or failed, reports the Step and frees it.
  void retire(std::unique_ptr<StepUnderWay> step, const Status& status,
              std::vector<FinishedItem>& finished);
  // Finishes a piece whose rows have run with this outcome.
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
  std::vector<std::unique_ptr<StepUnderWay>> spare_;  // free Steps, for their memory
  int64_t steps_run_ = 0;                             // Steps that step() has run
  // Null if the runner has no stages.
  PipelinedRunner* pipeline_ = nullptr;
  std::function<void(PipelineEvent)> tell_;
  StepsUnderWay under_way_;
  size_t entered_ = 0;  // Steps of under_way_ that have left the first stage
  size_t noted_ = 0;    // of these, Steps whose notices have been given
  PipelinePace pace_;
  int64_t told_ns_ = 0;                  // when the last item or event came
  std::vector<IssuedRow> rows_to_drop_;  // scratch
};

}  // namespace forerun
