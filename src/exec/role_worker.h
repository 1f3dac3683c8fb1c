// One role's queue and bookkeeping: merges the ready items of all sequences into Steps, runs them,
// and splits what comes back into results. The single-threaded heart of the real executor.
//
// A Step takes at most one item with rows of a sequence, in turns, so that a long prefill delays
// others by one Step at a time; an item with more rows than the row budget runs in consecutive
// pieces.
//
// Sequences that share prefixes (SequenceSpec) take over what full blocks of their beginning are
// cached, running or ended: those rows are not run. Where the next block is just being computed for
// another sequence of the Step, a sequence waits for it.
//
// Used by one thread at a time, except usage().
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <unordered_map>
#include <vector>

#include "exec/executor.h"
#include "exec/role_sequence.h"
#include "exec/step_builder.h"
#include "exec/step_record.h"
#include "exec/step_runner.h"
#include "kv/block_pool.h"
#include "kv/prefix_cache.h"
#include "step/work.h"

namespace forerun {

class RoleWorker {
 public:
  // `runner` must outlive the worker. `row_budget`: rows a Step takes at most; at least 1.
  // `on_step` may be empty; it is called after every Step on the worker's thread, with items and
  // CPU time if `trace`.
  RoleWorker(Role role, StepRunner* runner, int32_t row_budget,
             std::function<void(const StepRecord&)> on_step, bool trace = false);

  // `sequence` is not open.
  void open(SequenceId sequence, const SequenceSpec& spec);
  // Items of sequences that are not open are dropped.
  void submit(PendingItem item);
  void close(SequenceId sequence);
  // Whether step() has something to do.
  bool ready() const { return !ready_.empty(); }
  // Applies edits that are due and runs at most one Step; appends what has finished.
  void step(std::vector<FinishedItem>& finished);

  KvUsage usage() const;
  // Runs one Step of `sequences` sequences, each with `rows` tree rows behind a prefix of
  // `context_tokens` whose KV is whatever the storage holds, and says how long it took. Of a Step
  // of more rows than kMeasuredWants only the first ones of each sequence want something: target
  // rows are sampled; draft rows give 16 candidates. kResourceExhausted where the KV is too small.
  // Nothing may be queued, nor any sequence be open.
  Result<StepRecord> measure(int32_t rows, int32_t context_tokens, int32_t sequences);
  static constexpr int32_t kMeasuredWants = 128;

 private:
  bool take_turn(RoleSequence& sequence, std::vector<FinishedItem>& finished);
  void finish_front(RoleSequence& sequence, std::vector<FinishedItem>& finished);
  void fail_front(RoleSequence& sequence, const Status& status,
                  std::vector<FinishedItem>& finished);
  Status apply_edits(RoleSequence& sequence, const std::vector<Edit>& edits);
  // Skips prefix rows at the front of the item whose KV is cached. True if the next block will be
  // after this Step.
  bool reuse_prefix(RoleSequence& sequence, PendingItem& item);
  int32_t piece_rows(const RoleSequence& sequence, const PendingItem& item) const;
  void run_step(std::vector<FinishedItem>& finished);
  std::string describe(const RoleSequence& sequence) const;
  // A scratch sequence for measure(), with the context's blocks and an item of these rows.
  Status open_scratch(SequenceId id, int32_t rows, int32_t context_tokens, int32_t wants);

  const Role role_;
  StepRunner* runner_;
  const int32_t row_budget_;
  std::function<void(const StepRecord&)> on_step_;
  const bool trace_;
  BlockPool pool_;
  PrefixCache prefix_cache_;
  std::unordered_map<SequenceId, std::unique_ptr<RoleSequence>> sequences_;
  std::vector<RoleSequence*> ready_;   // with items, in the order of their turns
  std::vector<RoleSequence*> turn_;    // scratch: ready_ while a Step is built
  std::vector<RoleSequence*> pieces_;  // whose front items the Step runs
  std::vector<TraceItem> items_;       // as many, where it traces
  // A block of a shared prefix that the Step being built computes: its text's first row, and the
  // text before.
  struct BlockInWork {
    uint64_t before = 0;
    const WorkRow* rows = nullptr;
  };
  std::vector<BlockInWork> blocks_in_work_;
  BlockInWork next_block_;  // of the item whose turn it is; no rows: not at a block of a prompt
  std::vector<TokenId> tokens_;  // scratch
  StepBuilder builder_;
  std::vector<KvMove> moves_;
  // Of the Step being run.
  int64_t run_start_ns_ = 0;
  int64_t run_end_ns_ = 0;
  int64_t run_cpu_ns_ = 0;
};

}  // namespace forerun
