// A CPU device: a set of cores with one thread per core; all threads run one function together.
//
// Kernels are collective: every member of the team calls them with the same arguments and does its
// share of the work. A kernel does not wait at its end; the caller puts `team.sync()` where a later
// kernel reads what another member wrote. A whole forward pass is one `CpuDevice::run`.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "device/cpu/barrier.h"
#include "forerun/status.h"

namespace forerun {

// Half-open range of work units.
struct WorkRange {
  int64_t begin = 0;
  int64_t end = 0;
};

// Exception that unwinds a run which a device has given up. Thrown by Team::sync() and collectives,
// caught by CpuDeviceGroup::run().
struct RunGivenUp {};

// One member's view of its team; every CPU kernel takes it.
class Team {
 public:
  Team(int32_t rank, int32_t size, Barrier* barrier)
      : rank_(rank), size_(size), barrier_(barrier) {}

  int32_t rank() const { return rank_; }  // in [0, size)
  int32_t size() const { return size_; }
  void sync() const {
    if (size_ > 1 && !barrier_->wait()) throw RunGivenUp{};
  }
  // Returns this member's contiguous share of [0, count), in whole multiples of `grain` (the last
  // share may be shorter). Shares differ by at most one grain.
  WorkRange share(int64_t count, int64_t grain = 1) const;

 private:
  int32_t rank_;
  int32_t size_;
  Barrier* barrier_;
};

// A CPU device with its threads. Only one thread at a time may call run(); it works as member 0.
class CpuDevice {
 public:
  // `cores` has the cores to pin to, one entry per member; an empty list gives `num_threads`
  // unpinned members. Members may share a core. Fails if a core does not exist or this process may
  // not use it.
  static Result<std::unique_ptr<CpuDevice>> create(std::span<const int32_t> cores,
                                                   int32_t num_threads = 0);
  ~CpuDevice();
  CpuDevice(const CpuDevice&) = delete;
  CpuDevice& operator=(const CpuDevice&) = delete;

  int32_t size() const;
  // Returns how often members should poll before they sleep: seldom if there are more members than
  // cores.
  int spins() const;
  // Pins the calling thread to member 0's core if the device has cores. Meant for a thread that
  // only calls run() of this device.
  void pin_caller() const;
  // Runs `work` on every member and returns when all are done. `work` must not throw. The members
  // wait for each other, so a thread that calls run() often should ask for short time slices
  // (short_slices.h), as the device's own threads do.
  void run(const std::function<void(const Team&)>& work);

 private:
  struct Impl;
  explicit CpuDevice(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

// Returns the cores on which this process may run, ascending.
std::vector<int32_t> available_cores();

}  // namespace forerun
