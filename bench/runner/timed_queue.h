// The events of many requests, read on one thread, each with the time when it came.
#pragma once

#include <cstddef>
#include <limits>
#include <memory>
#include <optional>
#include <unordered_map>
#include <utility>

#include "forerun/engine.h"

namespace forerun::bench {

// The clock of everything that a load measures; seconds since some moment.
double now_s();

struct TimedEvent {
  size_t request = 0;
  double s = 0.0;  // when it was read; the reader sleeps until there is one
  Event event;
};

// One thread at a time.
class TimedQueue {
 public:
  static constexpr double kNever = std::numeric_limits<double>::infinity();

  static Result<TimedQueue> create();

  // `index` names its events; no two that are outstanding may share it.
  Status submit(Engine& engine, Request request, size_t index);
  // Waits for any request's next event, until now_s() reaches `until_s`. Nothing: it is that late
  // (to the millisecond), or no request is outstanding and `until_s` is kNever.
  std::optional<TimedEvent> next(double until_s);
  // Asks a request to end; nothing where it has ended.
  void cancel(size_t request);
  void cancel_all();

 private:
  explicit TimedQueue(std::unique_ptr<CompletionQueue> queue) : queue_(std::move(queue)) {}

  std::unique_ptr<CompletionQueue> queue_;
  std::unordered_map<size_t, std::shared_ptr<RequestHandle>> handles_;  // of those outstanding
};

}  // namespace forerun::bench
