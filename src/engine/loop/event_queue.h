// EventQueue passes events from the engine's loop to a reader of one request or of thousands.
//
// Every sample of a request has a slot for an event that its reader has not taken; filled slots
// form a list in the order in which they were filled. So the loop never waits, a slow reader costs
// one event per sample, and queueing a filled slot allocates no memory.
//
// Threads: all methods may be called from any thread. The queue has one lock, under which no code
// of a caller runs.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>

#include "forerun/completion_queue.h"
#include "forerun/event.h"
#include "forerun/speculation_options.h"
#include "forerun/status.h"
#include "strategies/speculation_plan.h"

namespace forerun {

class EventQueue;

// A submitted request, shared by its handle, its slots and the loop; it lives as long as any of
// them.
class RequestChannel {
 public:
  using PlanPtr = std::shared_ptr<const SpeculationPlan>;
  // The engine's functions that the handle calls. Both may be called after the engine has been
  // destroyed.
  struct EngineSide {
    std::function<void()> wake;  // wakes the loop
    // Resolves options as submission does.
    std::function<Result<PlanPtr>(const SpeculationOptions&)> resolve;
  };

  // Opens a channel, which counts as outstanding in `queue` until its last event has been taken.
  static std::shared_ptr<RequestChannel> open(std::shared_ptr<EventQueue> queue, uint64_t tag,
                                              int32_t num_samples, EngineSide engine);
  // Asks the loop to end all samples.
  void cancel();
  // Returns whether the reader has cancelled it, or no reader is left.
  bool cancelled() const;
  // Resolves the options and asks the loop to switch all samples
  // (RequestHandle::change_speculation).
  Status change_speculation(const SpeculationOptions& options);
  // Returns the plan that was requested last; null: none yet.
  PlanPtr wanted_plan() const;
  EventQueue& queue() const { return *queue_; }

 private:
  friend class EventQueue;
  RequestChannel(std::shared_ptr<EventQueue> queue, uint64_t tag, int32_t num_samples,
                 EngineSide engine);
  void wake();

  const std::shared_ptr<EventQueue> queue_;
  const uint64_t tag_;
  const EngineSide engine_;
  std::atomic<bool> cancelled_{false};
  std::atomic<int32_t> running_samples_;  // samples whose last event the loop has not pushed
  // Samples whose last event has not been taken; guarded by the queue's lock.
  int32_t unread_samples_;
  std::atomic<bool> has_wanted_plan_{false};
  mutable std::mutex mutex_;  // guards wanted_plan_
  PlanPtr wanted_plan_;
};

// A sample's slot. The loop pushes events in order; an event with `finished` set is the last.
class EventStream : public std::enable_shared_from_this<EventStream> {
 public:
  EventStream(std::shared_ptr<RequestChannel> channel, int32_t sample_idx);
  void push(Event event);
  // Pushes an event with kError and kResourceExhausted, without allocating.
  void push_out_of_memory() noexcept;
  bool cancelled() const { return channel_->cancelled(); }
  RequestChannel::PlanPtr wanted_plan() const { return channel_->wanted_plan(); }

 private:
  friend class EventQueue;

  const std::shared_ptr<RequestChannel> channel_;
  const int32_t sample_idx_;
  // Guarded by the queue's lock.
  Event unread_;
  bool has_unread_ = false;
  bool out_of_memory_ = false;
  std::shared_ptr<EventStream> next_;  // the next slot with an unread event
};

class EventQueue {
 public:
  // `descriptor`: an eventfd that is readable while the queue holds an event; the destructor closes
  // it; -1: none.
  explicit EventQueue(int descriptor = -1) : descriptor_(descriptor) {}
  ~EventQueue();

  // Takes the event that has waited longest. Returns nothing after `timeout`, or, with
  // `until_drained`, as soon as no request is outstanding. Without a timeout it waits forever.
  std::optional<Completion> take(std::optional<std::chrono::milliseconds> timeout,
                                 bool until_drained);
  // Drops unread events and all later ones, since the reader is gone.
  void close();
  bool is_closed() const { return closed_.load(std::memory_order_acquire); }
  int64_t outstanding() const;
  int descriptor() const { return descriptor_; }

 private:
  friend class EventStream;
  friend class RequestChannel;
  void opened();
  void push(EventStream& stream, Event* event);  // null: out of memory
  bool keep(EventStream& stream, Event* event);  // returns whether the reader must be woken
  void signal(bool readable);

  const int descriptor_;
  std::atomic<bool> closed_{false};
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::shared_ptr<EventStream> first_;
  EventStream* last_ = nullptr;
  int64_t outstanding_ = 0;
};

}  // namespace forerun
