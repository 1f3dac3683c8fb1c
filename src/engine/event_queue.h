// EventQueue: the way from the engine's loop to a reader of one request or of thousands.
//
// Every request has a slot for what its reader has not taken; slots with something in them wait in
// the order in which they were filled. So the loop never waits, a slow reader costs one event a
// request, and telling that something is there allocates nothing.
//
// Threads: all methods from any thread, under the queue's one lock; nothing of a caller's runs
// under it.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>

#include "forerun/completion_queue.h"
#include "forerun/event.h"

namespace forerun {

// Says "end it" from a reader to the loop. Outlives both.
class CancelFlag {
 public:
  // `wake` tells the loop to look; it may be called after the engine is gone and must allow that.
  explicit CancelFlag(std::function<void()> wake) : wake_(std::move(wake)) {}
  void set() {
    set_.store(true, std::memory_order_release);
    if (wake_) wake_();
  }
  bool is_set() const { return set_.load(std::memory_order_acquire); }

 private:
  std::function<void()> wake_;
  std::atomic<bool> set_{false};
};

class EventQueue;

// A request's slot. The loop pushes, in order; an event with `finished` set is the last.
class EventStream : public std::enable_shared_from_this<EventStream> {
 public:
  // Counts as outstanding in `queue` from here until its last event has been taken.
  static std::shared_ptr<EventStream> open(std::shared_ptr<EventQueue> queue,
                                           std::shared_ptr<CancelFlag> cancel, uint64_t tag);
  void push(Event event);
  // By its reader, or since nobody is left to read it.
  bool cancelled() const;

 private:
  friend class EventQueue;
  EventStream(std::shared_ptr<EventQueue> queue, std::shared_ptr<CancelFlag> cancel, uint64_t tag);

  const std::shared_ptr<EventQueue> queue_;
  const std::shared_ptr<CancelFlag> cancel_;
  const uint64_t tag_;
  // Under the queue's lock.
  std::optional<Event> unread_;
  std::shared_ptr<EventStream> next_;  // among the slots with something unread
};

class EventQueue {
 public:
  // `descriptor`: an eventfd that is kept readable while something is there, and closed in the
  // end; -1: none.
  explicit EventQueue(int descriptor = -1) : descriptor_(descriptor) {}
  ~EventQueue();

  // What has waited longest; nothing after `timeout`, or, with `until_drained`, as soon as no
  // request is outstanding. No timeout: for ever.
  std::optional<Completion> take(std::optional<std::chrono::milliseconds> timeout,
                                 bool until_drained);
  // The reader is gone: what is unread is dropped, and what comes.
  void close();
  bool is_closed() const { return closed_.load(std::memory_order_acquire); }
  int64_t outstanding() const;
  int descriptor() const { return descriptor_; }

 private:
  friend class EventStream;
  void opened();
  void push(EventStream& stream, Event event);
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
