// Tasks in the order in which they are worth doing: smaller ones first, but a task of n units of
// kUnitBytes is overtaken by at most n of those that come after it. Age is counted in tasks, not in
// time, so the order follows from what was pushed alone.
//
// Threads: one at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

namespace forerun::server {

class TaskQueue {
 public:
  static constexpr int64_t kUnitBytes = 16 << 10;

  size_t size() const { return waiting_.size(); }
  void push(int64_t bytes, std::function<void()> task);
  // Removes and returns the next task; there must be one.
  std::function<void()> pop();

 private:
  struct Waiting {
    int64_t turn = 0;     // lowest first
    int64_t arrival = 0;  // among equals
    std::function<void()> task;
  };
  static bool is_later(const Waiting& a, const Waiting& b) {
    return a.turn != b.turn ? a.turn > b.turn : a.arrival > b.arrival;
  }

  std::vector<Waiting> waiting_;  // a heap by is_later
  int64_t arrivals_ = 0;
};

}  // namespace forerun::server
