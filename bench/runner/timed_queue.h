// The events of many requests, read on one thread, each with its time of arrival.
#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <unordered_map>
#include <utility>

#include "forerun/engine.h"

namespace forerun::bench {

// Returns the time of the clock of all load measurements, in seconds from an arbitrary start.
double now_s();

// The interval at which a wait for events calls `stop`.
inline constexpr std::chrono::milliseconds kStopPoll{50};

struct TimedEvent {
  size_t request = 0;
  double s = 0.0;  // time when it was read; the reader sleeps until there is one
  Event event;
};

// Thread rules: one thread at a time.
class TimedQueue {
 public:
  static constexpr double kNever = std::numeric_limits<double>::infinity();

  // `stop` is called every kStopPoll while next() waits. Once it returns true, all outstanding
  // requests are cancelled, and the caller must submit no more. Empty: never stops.
  static Result<TimedQueue> create(std::function<bool()> stop = {});

  // `index` identifies the request's events; outstanding requests must have different indices.
  Status submit(Engine& engine, Request request, size_t index);
  // Waits for the next event of any request, until now_s() reaches `until_s`. Returns nothing at
  // that time (to the millisecond), and if no request is outstanding and `until_s` is kNever or the
  // queue was stopped.
  std::optional<TimedEvent> next(double until_s);
  // Asks a request to end; does nothing if it has ended.
  void cancel(size_t request);
  void cancel_all();
  bool stopped() const { return stopped_; }
  // Returns kCancelled once the queue has been stopped.
  Status stop_status() const;

 private:
  TimedQueue(std::unique_ptr<CompletionQueue> queue, std::function<bool()> stop)
      : queue_(std::move(queue)), stop_(std::move(stop)) {}

  std::unique_ptr<CompletionQueue> queue_;
  std::function<bool()> stop_;
  bool stopped_ = false;
  // Handles of outstanding requests.
  std::unordered_map<size_t, std::shared_ptr<RequestHandle>> handles_;
};

}  // namespace forerun::bench
