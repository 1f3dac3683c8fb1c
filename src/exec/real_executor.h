// Runs work on real devices. Each role has a runner, which runs on a thread of its own or on the
// thread that calls next().
//
// Two roles whose runners share devices must not both be threaded; neither may be where the draft
// is a trained head, which reads what the target's rows leave. Where roles run inline, next()
// chooses whose Step comes next (exec/role_turns.h).
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "base/id_map.h"
#include "exec/executor.h"
#include "exec/live_costs.h"
#include "exec/mailbox.h"
#include "exec/role/pending_item.h"
#include "exec/role_turns.h"
#include "exec/step_record.h"
#include "exec/step_runner.h"
#include "exec/step_scheduler.h"

namespace forerun {

struct RealExecutorOptions {
  // One a role; null where there is no such model. Devices and decoders behind them must outlive
  // the executor.
  std::array<std::unique_ptr<StepRunner>, kNumRoles> runners;
  // Which roles run on a thread of their own, concurrently with the other role and with the caller.
  // A runner with stages (StepRunner::pipelined()) then has several Steps under way at once.
  std::array<bool, kNumRoles> threaded{};
  // Called once on each such thread before anything else runs there; may be empty.
  std::function<void(Role)> on_thread_start;
  // How long such a thread, and next(), poll before they sleep; worth it where processors have
  // nothing else to do while other devices work.
  std::chrono::microseconds spin{0};
  // How many rows and how much time a Step of a role may take, judged by `costs` (null: nothing is
  // known; must outlive the executor).
  StepBudget budget;
  const LiveCosts* costs = nullptr;
  // The most tokens of a sequence that the draft model sees and keeps, through view "streaming_llm"
  // of this budget, whatever its items ask for; 0: no limit. The view must accept the budget.
  int32_t draft_window = 0;
  // Called after every Step on the thread that ran it; may be empty. With `trace` the records carry
  // items and CPU time.
  std::function<void(const StepRecord&)> on_step;
  bool trace = false;
};

class RealExecutor : public Executor {
 public:
  explicit RealExecutor(RealExecutorOptions options);
  ~RealExecutor() override;  // waits for Steps in flight

  // kInvalidArgument where the sequence is open already or max_tokens is not positive.
  Status open(SequenceId sequence, const SequenceSpec& spec) override;
  // An item for a role without a runner fails (kInternal).
  void submit(WorkItem item) override;
  std::optional<WorkResult> next(std::chrono::microseconds timeout) override;
  std::optional<WorkResult> next_at_hand() override;
  void set_meanwhile(Meanwhile meanwhile) override { meanwhile_ = std::move(meanwhile); }
  void close(SequenceId sequence) override;
  // Where a role has its own thread, a closed sequence's blocks return after the Step in flight.
  // All zero for a role without a runner.
  KvUsage kv_usage(Role role) const override;

  // Runs one Step to which each of `sequences` scratch sequences gives `rows` rows behind this
  // context, and says how long it took. Only while no sequence is open (kInvalidArgument
  // otherwise). kNotFound for a role without a runner, kResourceExhausted where its KV is too
  // small.
  Result<StepRecord> profile(Role role, int32_t rows, int32_t context_tokens,
                             int32_t sequences = 1);

 private:
  class RoleThread;

  struct OpenSequence {
    uint64_t opening = 0;
    int32_t outstanding = 0;  // items with rows whose results next() has not returned
    std::vector<RowDistribution> distributions;  // what the draft drew its candidates from
  };

  void narrow_view(WorkItem& item) const;  // narrows the draft's view to its window
  void forget_distributions(OpenSequence& sequence, const std::vector<Edit>& edits);
  void attach_distributions(const OpenSequence& sequence, PendingItem& item) const;
  void remember_distributions(OpenSequence& sequence, std::vector<RowDistribution> added);
  // Runs a Step of the role whose turn it is. Returns whether there was one.
  bool run_inline();
  // Whether any role that runs inline has work that waits for masks.
  bool waits_for_masks() const;

  Mailbox<FinishedItem> outbox_;
  std::array<std::unique_ptr<StepRunner>, kNumRoles> runners_;
  std::array<std::unique_ptr<RoleThread>, kNumRoles> roles_;
  IdMap<OpenSequence> open_;
  uint64_t openings_ = 0;  // sequences opened so far
  uint64_t closings_ = 0;
  int64_t outstanding_ = 0;  // outstanding items of open sequences
  RoleTurns turns_;          // turns of inline roles
  Meanwhile meanwhile_;
  const bool trace_;
  const int32_t draft_window_;
  // Results of Steps; those from next_finished_ on are still to be returned.
  std::vector<FinishedItem> finished_;
  size_t next_finished_ = 0;
};

}  // namespace forerun
