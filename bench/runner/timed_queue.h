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

// How often whoever waits for events asks whether to stop.
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

  // `stop`: asked every kStopPoll while next() waits; once it says true, everything outstanding is
  // cancelled, and the caller submits nothing more. Empty: never.
  static Result<TimedQueue> create(std::function<bool()> stop = {});

  // `index` names its events; no two that are outstanding may share it.
  Status submit(Engine& engine, Request request, size_t index);
  // Waits for any request's next event, until now_s() reaches `until_s`. Nothing: it is that late
  // (to the millisecond), or no request is outstanding and `until_s` is kNever or it was stopped.
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
