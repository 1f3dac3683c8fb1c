// Executors run strategies' work on models. Real, emulated and simulated executors share this
// interface.
//
// submit() and close() never block on a device; results come back one item at a time. Only the
// engine's thread may call an executor.
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
  // Makes a sequence known to every role. Takes no KV yet: rows take blocks when they run.
  virtual Status open(SequenceId sequence, const SequenceSpec& spec) = 0;
  // Queues an item. Items of one (role, sequence) run in FIFO order; whenever a role's devices are
  // free, items of different sequences are merged into one Step. Work begins with the following
  // next().
  virtual void submit(WorkItem item) = 0;
  // Returns the next result, after waiting up to `timeout`. Runs Steps of roles without their own
  // threads on the calling thread. Returns nothing if no item is left or the time is up.
  virtual std::optional<WorkResult> next(std::chrono::microseconds timeout) = 0;
  // Returns a result that is ready; runs no Step and does not wait.
  virtual std::optional<WorkResult> next_at_hand() = 0;
  // Sets the caller's work for the time in which devices work: next() calls it beside every Step
  // that it runs, or before it waits for threads that run Steps. If next() returns nothing, it may
  // not have called it.
  virtual void set_meanwhile(Meanwhile meanwhile) = 0;
  // Closes a sequence: drops its queued items, and frees its blocks when no Step in flight can
  // touch them. No result of the sequence comes back afterwards, even if its id is opened again
  // while one of its Steps is in flight.
  virtual void close(SequenceId sequence) = 0;
  // May be called from any thread.
  virtual KvUsage kv_usage(Role role) const = 0;
};

}  // namespace forerun
