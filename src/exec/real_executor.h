// The executor for real devices. Each role has a runner, which runs on its own thread or on the
// thread that calls next().
//
// Two roles with runners on the same devices must not both be threaded. Neither role may be
// threaded if the draft is a trained head, which reads hidden states of the target's rows. For
// inline roles, next() chooses the next Step's role (exec/role_turns.h).
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
  // One runner per role; null if there is no such model. Their devices and decoders must outlive
  // the executor.
  std::array<std::unique_ptr<StepRunner>, kNumRoles> runners;
  // True for roles that run on their own thread, concurrently with the other role and with the
  // caller. A runner with stages (StepRunner::pipelined()) then has several Steps in flight.
  std::array<bool, kNumRoles> threaded{};
  // Called once on each such thread, before any work; may be empty.
  std::function<void(Role)> on_thread_start;
  // The time for which such a thread, and next(), poll before they sleep. Polling pays off if the
  // cores have nothing else to do while other devices work.
  std::chrono::microseconds spin{0};
  // The limits for rows and time of a role's Step, by `costs`, which must outlive the executor
  // (null if nothing is known).
  StepBudget budget;
  const LiveCosts* costs = nullptr;
  // The largest number of a sequence's tokens that the draft model attends to and keeps, through
  // view "streaming_llm" with this budget, whatever its items ask for; 0 for no limit. The view
  // must accept the budget.
  int32_t draft_window = 0;
  // Called after every Step on the thread that ran it; may be empty. With `trace` the records
  // include items and CPU time.
  std::function<void(const StepRecord&)> on_step;
  bool trace = false;
};

class RealExecutor : public Executor {
 public:
  explicit RealExecutor(RealExecutorOptions options);
  ~RealExecutor() override;  // waits for Steps in flight

  // Returns kInvalidArgument if the sequence is open already or max_tokens is not positive.
  Status open(SequenceId sequence, const SequenceSpec& spec) override;
  // Queues an item; one for a role without a runner fails (kInternal), or is dropped if it has no
  // rows. Drops items of a sequence that is not open.
  void submit(WorkItem item) override;
  std::optional<WorkResult> next(std::chrono::microseconds timeout) override;
  std::optional<WorkResult> next_at_hand() override;
  void set_meanwhile(Meanwhile meanwhile) override { meanwhile_ = std::move(meanwhile); }
  void close(SequenceId sequence) override;
  // Returns the role's KV usage; all zero for a role without a runner. With a threaded role, a
  // closed sequence's blocks return after the Step in flight.
  KvUsage kv_usage(Role role) const override;

  // Runs one Step to which each of `sequences` scratch sequences adds `rows` rows behind this
  // context, and returns its time. Returns kInvalidArgument if a sequence is open or an argument is
  // out of range (rows and sequences from 1, context from 0), kNotFound for a role without a
  // runner, and kResourceExhausted if its KV is too small.
  Result<StepRecord> profile(Role role, int32_t rows, int32_t context_tokens,
                             int32_t sequences = 1);

 private:
  class RoleThread;

  struct OpenSequence {
    uint64_t opening = 0;
    int32_t outstanding = 0;  // items with rows for which next() has not returned the result
    // The draft's distributions of its drawn candidates.
    std::vector<RowDistribution> distributions;
  };

  void narrow_view(WorkItem& item) const;  // narrows the draft's view to its window
  void forget_distributions(OpenSequence& sequence, const std::vector<Edit>& edits);
  void attach_distributions(const OpenSequence& sequence, PendingItem& item) const;
  void remember_distributions(OpenSequence& sequence, std::vector<RowDistribution> added);
  // Runs a Step of the role that has its turn. Returns whether there was one.
  bool run_inline();
  // Returns whether an inline role has work that waits for masks.
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
  const int32_t draft_window_;
  // Results of Steps; next() has still to return those from next_finished_ on.
  std::vector<FinishedItem> finished_;
  size_t next_finished_ = 0;
};

}  // namespace forerun
