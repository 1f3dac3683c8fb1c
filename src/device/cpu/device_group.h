// A tensor-parallel group of CPU devices: each a team of threads on cores of its own, all running
// one function, joined by collectives.
//
// A degree of 1 is a group too: its collectives wait for nobody.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "device/collectives.h"
#include "device/cpu/team.h"
#include "forerun/status.h"

namespace forerun {

// The processors of one device, one member of its team each.
struct CpuCores {
  std::vector<int32_t> cores;  // pinned to; several devices may name the same one
  int32_t num_threads = 1;     // where `cores` is empty: members that are not pinned
};

struct CpuGroupOptions {
  std::vector<CpuCores> devices;  // by rank; all pinned or none
  // How long a device waits for the others at a collective before it gives the run up.
  std::chrono::milliseconds timeout{60000};
  // For tests: called before each device's collectives, on the thread of its first member. What is
  // not ok is a failure of that device; returning late is a delay.
  std::function<Status(int32_t rank)> before_collective = {};
};

// A member of a device's team while its group runs.
struct GroupMember {
  const Team& team;    // of its device
  Collectives& peers;  // the devices
};

// Owns the threads. run() is called from one thread at a time; the caller works as the first member
// of device 0.
class CpuDeviceGroup {
 public:
  // kInvalidArgument: no device, a device without threads, or a core that this process may not use.
  static Result<std::unique_ptr<CpuDeviceGroup>> create(CpuGroupOptions options);
  // Devices of so many unpinned threads each.
  static Result<std::unique_ptr<CpuDeviceGroup>> create_unpinned(
      const std::vector<int32_t>& team_sizes);
  ~CpuDeviceGroup();
  CpuDeviceGroup(const CpuDeviceGroup&) = delete;
  CpuDeviceGroup& operator=(const CpuDeviceGroup&) = delete;

  int32_t degree() const;
  int32_t team_size(int32_t rank) const;
  int32_t smallest_team() const;
  // As CpuDevice's.
  void pin_caller() const;
  // Runs `work` on every member of every device and returns when all are done. Not ok where a
  // device failed, threw, or was not at a collective in time: the others have then left `work`
  // where they waited, and what it wrote is undefined. The group can run again.
  //   kDeadlineExceeded: a device was late, by its number; kResourceExhausted: no memory.
  Status run(const std::function<void(const GroupMember&)>& work);

 private:
  struct Impl;
  explicit CpuDeviceGroup(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace forerun
