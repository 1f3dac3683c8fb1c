// An executor that computes nothing. A test decides which request's prompt the target has read, and
// how much memory is in use. A request never ends by itself.
#pragma once

#include <chrono>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "exec/executor.h"

namespace forerun::testing {

inline constexpr int64_t kHeldBlocks = 26;

class HeldExecutor : public Executor {
 public:
  Status open(SequenceId, const SequenceSpec& spec) override {
    const std::lock_guard lock(mutex_);
    ++opened_;
    priorities_.push_back(spec.priority);
    return {};
  }
  void submit(WorkItem) override {}
  std::optional<WorkResult> next(std::chrono::microseconds) override {
    std::unique_lock lock(mutex_);
    ++rounds_;
    changed_.notify_all();
    if (!results_.empty()) {
      WorkResult result = std::move(results_.front());
      results_.pop_front();
      return result;
    }
    lock.unlock();
    std::this_thread::sleep_for(std::chrono::microseconds(100));
    return std::nullopt;
  }
  std::optional<WorkResult> next_at_hand() override { return std::nullopt; }
  void set_meanwhile(Meanwhile) override {}  // it never has any devices work
  void close(SequenceId sequence) override {
    const std::lock_guard lock(mutex_);
    closed_.push_back(sequence);
    changed_.notify_all();
  }
  KvUsage kv_usage(Role role) const override {
    const std::lock_guard lock(mutex_);
    return role == Role::kTarget ? KvUsage{used_, kHeldBlocks, 1} : KvUsage{};
  }

  void answer(SequenceId sequence, int64_t used_blocks) {
    const std::lock_guard lock(mutex_);
    used_ = used_blocks;
    WorkResult result;
    result.sequence = sequence;
    result.rows.resize(1);
    result.rows[0].token = 5;
    results_.push_back(std::move(result));
  }
  // Waits until so many sequences have been closed; whether that came within some seconds.
  bool wait_for_closed(int count) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, std::chrono::seconds(20),
                             [&] { return static_cast<int>(closed_.size()) >= count; });
  }
  // The role has no blocks for the next rows of the sequence.
  void starve(SequenceId sequence) {
    const std::lock_guard lock(mutex_);
    WorkResult result;
    result.sequence = sequence;
    result.status = Status(StatusCode::kResourceExhausted, "no blocks");
    result.waits_for_memory = true;
    results_.push_back(std::move(result));
  }
  // The priorities of the sequences opened so far, and the sequences closed so far, in order. Both
  // wait until the loop has seen everything submitted before the call.
  std::vector<int32_t> priorities() {
    opened();
    const std::lock_guard lock(mutex_);
    return priorities_;
  }
  std::vector<SequenceId> closed() {
    opened();
    const std::lock_guard lock(mutex_);
    return closed_;
  }
  // Once the loop has seen everything that was submitted and answered before the call.
  int opened() {
    std::unique_lock lock(mutex_);
    const int64_t seen = rounds_ + 2 + static_cast<int64_t>(results_.size());
    changed_.wait_for(lock, std::chrono::seconds(20), [&] { return rounds_ >= seen; });
    return opened_;
  }

 private:
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<WorkResult> results_;
  int64_t used_ = 0;
  int64_t rounds_ = 0;
  int opened_ = 0;
  std::vector<int32_t> priorities_;
  std::vector<SequenceId> closed_;
};

}  // namespace forerun::testing
