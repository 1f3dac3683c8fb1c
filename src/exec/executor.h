// Runs the work of strategies on models. Real, emulated and simulated executors share this
// interface.
//
// submit() and close() never block on a device; results come back one item at a time. Called from
// the engine's thread only.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "forerun/status.h"
#include "step/cost_table.h"
#include "step/meanwhile.h"
#include "step/types.h"
#include "step/work.h"

namespace forerun {

struct KvUsage {
  int64_t used_blocks = 0;
  int64_t total_blocks = 0;
  int64_t block_bytes = 0;
};

class Executor {
 public:
  virtual ~Executor() = default;
  // Makes a sequence known to every role. Takes no KV yet: blocks come with its rows.
  virtual Status open(SequenceId sequence, const SequenceSpec& spec) = 0;
  // Queues an item. FIFO per (role, sequence); items of different sequences of a role are merged
  // into one Step whenever that role's devices are free. Runs from the following next() on.
  virtual void submit(WorkItem item) = 0;
  // Returns the next result and waits for it up to `timeout`; runs Steps on the calling thread
  // where roles have no threads of their own. Nothing where no item is left or the time is up.
  virtual std::optional<WorkResult> next(std::chrono::microseconds timeout) = 0;
  // Returns a result that is already there; runs nothing and does not wait.
  virtual std::optional<WorkResult> next_at_hand() = 0;
  // Sets the caller's work that can wait until devices work again: next() calls it beside every
  // Step that it runs, or before it waits for threads that run Steps. Where next() returns nothing,
  // it may not have been called.
  virtual void set_meanwhile(Meanwhile meanwhile) = 0;
  // Forgets a sequence: queued items are dropped, its blocks return when nothing in flight can
  // touch them. No result of it is reported afterwards, not even where its id is opened again while
  // a Step of its former life is in flight.
  virtual void close(SequenceId sequence) = 0;
  // May be called from any thread.
  virtual KvUsage kv_usage(Role role) const = 0;
};

}  // namespace forerun
