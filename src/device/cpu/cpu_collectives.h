// Collectives for a group of CPU devices. Members meet at barriers and read each other's memory.
// Used by device_group.cc.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "device/collectives.h"
#include "device/cpu/barrier.h"
#include "device/cpu/team.h"
#include "forerun/status.h"

namespace forerun {

class CpuCollectives;

// State that all members of a group share.
struct CpuGroupShared {
  std::chrono::milliseconds timeout{};
  std::function<Status(int32_t rank)> before_collective;

  std::unique_ptr<Barrier> everybody;
  std::vector<std::unique_ptr<Barrier>> teams;    // by device
  std::vector<std::unique_ptr<Barrier>> columns;  // by rank in a team: one member of each device
  std::vector<std::vector<CpuCollectives*>> participants;  // [device][rank in its team]
  // The partial sums of all devices; calls alternate between two sets.
  std::array<std::vector<MatrixView<const float>>, 2> partials;

  // Ends every member's wait. The first reason given is kept. May be called from any thread.
  void give_up(Status reason);
  // Returns why the last run was given up and makes the group usable again. May be called only
  // between runs.
  Status take_failure();

 private:
  std::mutex mutex_;
  Status failure_;
};

// The collectives of one thread.
class CpuCollectives final : public Collectives {
 public:
  CpuCollectives(int32_t rank, int32_t degree, Team team, CpuGroupShared* shared);

  void add_partials(MatrixView<const float> partial, std::span<const float> bias,
                    bool round_to_bf16, MatrixView<float> x) override;
  std::span<const std::span<const std::byte>> gather(std::span<const std::byte> own_part) override;

  const Team& team() const { return team_; }
  void restart();  // called between runs, after a run was given up

 private:
  // The members that wait for each other: all members of all devices, or those with the same rank
  // in their teams.
  enum class Meeting : uint8_t { kEverybody, kColumn };
  // Throws RunGivenUp if a member does not arrive in time.
  void meet(Meeting meeting, Barrier& barrier);

  const Team team_;
  CpuGroupShared* const shared_;
  std::array<std::atomic<uint32_t>, 2> meetings_{};  // by Meeting; shows which device is late
  uint32_t sums_ = 0;
  uint32_t gathers_ = 0;
  // The bytes that this thread passed to gather(). Calls alternate between two buffers, since other
  // members may still read the previous one.
  std::array<std::vector<std::byte>, 2> told_;
  std::vector<std::span<const std::byte>> parts_;
};

}  // namespace forerun
