// A queue of tasks that prefers small ones: a task of n units of kUnitBytes is overtaken by at most
// n later tasks. Age is counted in tasks, not in time, so the order depends only on the pushed
// tasks.
//
// Thread rules: one thread at a time.
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

  std::vector<Waiting> waiting_;  // a heap ordered by is_later
  int64_t arrivals_ = 0;
};

}  // namespace forerun::server
