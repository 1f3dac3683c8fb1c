// A tensor-parallel group of CPU devices. Each device is a team of threads on its own cores; all
// teams run one function and communicate by collectives.
//
// A group may have degree 1; its collectives then do not wait.
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

// The CPU cores of one device. Each core runs one member of its team.
struct CpuCores {
  std::vector<int32_t> cores;  // cores to pin members to; devices may share a core
  int32_t num_threads = 1;     // if `cores` is empty: number of unpinned members
};

struct CpuGroupOptions {
  std::vector<CpuCores> devices;  // by rank; all devices have pinned members, or none has
  // The time that a device waits for the others at a collective before it gives the run up.
  std::chrono::milliseconds timeout{60000};
  // For tests: called before each device's collectives, on the thread of its first member. An error
  // counts as a failure of that device; a late return makes the device late.
  std::function<Status(int32_t rank)> before_collective = {};
};

// A member of a device's team while its group runs.
struct GroupMember {
  const Team& team;    // the team of the member's device
  Collectives& peers;  // collectives among the devices
};

// A group of CPU devices with its threads. Only one thread at a time may call run(); it works as
// the first member of device 0.
class CpuDeviceGroup {
 public:
  // Returns kInvalidArgument if there is no device, if a device has no threads, or if this process
  // may not use one of the cores.
  static Result<std::unique_ptr<CpuDeviceGroup>> create(CpuGroupOptions options);
  // Creates a group in which device r has team_sizes[r] unpinned threads.
  static Result<std::unique_ptr<CpuDeviceGroup>> create_unpinned(
      const std::vector<int32_t>& team_sizes);
  // Returns one device with all threads of this group, for work that is not divided. The threads
  // live as long as either group, and only one of the two may run at a time.
  std::unique_ptr<CpuDeviceGroup> as_one_device() const;
  ~CpuDeviceGroup();
  CpuDeviceGroup(const CpuDeviceGroup&) = delete;
  CpuDeviceGroup& operator=(const CpuDeviceGroup&) = delete;

  int32_t degree() const;
  int32_t team_size(int32_t rank) const;
  int32_t smallest_team() const;
  // See CpuDevice::pin_caller().
  void pin_caller() const;
  // Runs `work` on every member of every device and returns when all are done. Fails if a device
  // failed, threw, or missed the timeout of a collective: the other members have then left `work`
  // at the collective where they waited, and what `work` wrote is undefined. The group can run
  // again.
  //   Returns kDeadlineExceeded if a device was late (the message has its number),
  //   kResourceExhausted if memory ran out.
  Status run(const std::function<void(const GroupMember&)>& work);

 private:
  struct Impl;
  explicit CpuDeviceGroup(std::unique_ptr<Impl> impl);
  // Divides all of `threads` into devices of these sizes.
  static std::unique_ptr<Impl> divide(std::shared_ptr<CpuDevice> threads,
                                      std::vector<int32_t> team_sizes,
                                      std::chrono::milliseconds timeout);
  std::unique_ptr<Impl> impl_;
};

}  // namespace forerun
