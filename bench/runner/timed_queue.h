// The events of many requests, read on one thread, each with the time when it came.
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

// The clock of everything that a load measures; seconds since some moment.
double now_s();

// The interval at which a wait for events calls `stop`.
inline constexpr std::chrono::milliseconds kStopPoll{50};

struct TimedEvent {
  size_t request = 0;
  double s = 0.0;  // when it was read; the reader sleeps until there is one
  Event event;
};

// One thread at a time.
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
  // Asks a request to end; nothing where it has ended.
  void cancel(size_t request);
  void cancel_all();
  bool stopped() const { return stopped_; }
  // kCancelled once it has been stopped.
  Status stop_status() const;

 private:
  TimedQueue(std::unique_ptr<CompletionQueue> queue, std::function<bool()> stop)
      : queue_(std::move(queue)), stop_(std::move(stop)) {}

  std::unique_ptr<CompletionQueue> queue_;
  std::function<bool()> stop_;
  bool stopped_ = false;
  std::unordered_map<size_t, std::shared_ptr<RequestHandle>> handles_;  // of those outstanding
};

}  // namespace forerun::bench
