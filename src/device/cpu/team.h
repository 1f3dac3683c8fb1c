// A CPU device: a set of cores, one thread a core, that run one function together.
//
// Kernels are collective: every member of the team calls them with the same arguments, each does
// its share of the work, and nobody waits at the end; the caller puts `team.sync()` where a later
// kernel reads what another member wrote. A whole forward pass is one `CpuDevice::run`.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "forerun/status.h"

namespace forerun {

// Half-open range of work units.
struct WorkRange {
  int64_t begin = 0;
  int64_t end = 0;
};

// Barrier for a fixed number of threads. Spins for some microseconds, then sleeps, so that more
// threads than cores stay correct and bearable.
class TeamBarrier {
 public:
  explicit TeamBarrier(int32_t size) : size_(size) {}
  // Everything written before by any member is seen after by every member.
  void wait();

 private:
  const int32_t size_;
  alignas(64) std::atomic<int32_t> arrived_{0};
  alignas(64) std::atomic<uint32_t> generation_{0};
};

// One member's view of its team; passed to every CPU kernel.
class Team {
 public:
  Team(int32_t rank, int32_t size, TeamBarrier* barrier)
      : rank_(rank), size_(size), barrier_(barrier) {}

  int32_t rank() const { return rank_; }  // in [0, size)
  int32_t size() const { return size_; }
  void sync() const {
    if (size_ > 1) barrier_->wait();
  }
  // This member's contiguous share of [0, count), in whole multiples of `grain` (the last one may
  // be shorter). Shares differ by one grain at most.
  WorkRange share(int64_t count, int64_t grain = 1) const;

 private:
  int32_t rank_;
  int32_t size_;
  TeamBarrier* barrier_;
};

// Owns the threads. run() is called from one thread at a time; the caller works as member 0.
class CpuDevice {
 public:
  // `cores`: the processors to pin to, one member each; an empty list means `num_threads` unpinned
  // members. Fails if a core does not exist or may not be used by this process.
  static Result<std::unique_ptr<CpuDevice>> create(std::span<const int32_t> cores,
                                                   int32_t num_threads = 0);
  ~CpuDevice();
  CpuDevice(const CpuDevice&) = delete;
  CpuDevice& operator=(const CpuDevice&) = delete;

  int32_t size() const;
  // Pins the calling thread to member 0's core, where the device was made of cores: for a thread
  // that does nothing but run() this device.
  void pin_caller() const;
  // Runs `work` on every member and returns when all are done. `work` must not throw.
  void run(const std::function<void(const Team&)>& work);

 private:
  struct Impl;
  explicit CpuDevice(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

// The processors this process may run on, ascending.
std::vector<int32_t> available_cores();

}  // namespace forerun
