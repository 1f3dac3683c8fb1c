// The collectives of a CPU group: barriers and each other's memory. Used by device_group.cc.
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

// What all members of a group share.
struct CpuGroupShared {
  std::chrono::milliseconds timeout{};
  std::function<Status(int32_t rank)> before_collective;

  std::unique_ptr<Barrier> everybody;
  std::vector<std::unique_ptr<Barrier>> teams;             // by device
  std::vector<std::unique_ptr<Barrier>> columns;           // by rank in a team: one of each device
  std::vector<std::vector<CpuCollectives*>> participants;  // [device][rank in its team]
  // What the devices add up, for two calls in turn.
  std::array<std::vector<MatrixView<const float>>, 2> partials;

  // Ends everybody's waiting; the first reason stays. From any thread.
  void give_up(Status reason);
  // Why the last run was given up; makes the group usable again. While nobody runs.
  Status take_failure();

 private:
  std::mutex mutex_;
  Status failure_;
};

// A thread's end.
class CpuCollectives final : public Collectives {
 public:
  CpuCollectives(int32_t rank, int32_t degree, Team team, CpuGroupShared* shared);

  void add_partials(MatrixView<const float> partial, std::span<const float> bias,
                    bool round_to_bf16, MatrixView<float> x) override;
  std::span<const std::span<const std::byte>> gather(std::span<const std::byte> mine) override;

  const Team& team() const { return team_; }
  void restart();  // between runs, after one that was given up

 private:
  // Of all members of all devices, or of those of equal rank in their teams.
  enum class Meeting : uint8_t { kEverybody, kColumn };
  // Throws RunGivenUp where somebody fails to come.
  void meet(Meeting meeting, Barrier& barrier);

  const Team team_;
  CpuGroupShared* const shared_;
  std::array<std::atomic<uint32_t>, 2> meetings_{};  // by Meeting, for who is late
  uint32_t sums_ = 0;
  uint32_t gathers_ = 0;
  // What this thread told its column, for two gathers in turn: others may still read the last one.
  std::array<std::vector<std::byte>, 2> told_;
  std::vector<std::span<const std::byte>> parts_;
};

}  // namespace forerun
