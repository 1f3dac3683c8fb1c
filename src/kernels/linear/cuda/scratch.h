// Device memory through which the blocks of one launch for many rows (linear/cuda/tiles.cu)
// exchange partial sums and the inverse RMS of rows, and through which sums of activations reach
// the blocks of a launch.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>

#include "device/cuda/cuda_memory.h"
#include "forerun/status.h"
#include "kernels/linear/cuda/tile_plan.h"

namespace forerun::cuda {

// Enough for kMaxLinearRows rows of 32,768 inputs with 4 minima for 128 of them.
inline constexpr size_t kGroupSumsBytes =
    size_t{kMaxLinearRows / 8} * (32768 / 128) * group_sum_bytes(4);

struct LinearScratchCuda {
  float* sums = nullptr;         // kLinearPieceBytes
  float* inverse_rms = nullptr;  // [kMaxLinearRows]
  // Sums of activations, kGroupSumsBytes: linear/cuda/group_sums.h.
  std::byte* group_sums = nullptr;
  // Counters, 0 before and after a launch: [kMaxSplitTiles] for tiles, then one for inverse_rms.
  uint32_t* arrivals = nullptr;
  // A word that the device can write. A block sets it if it has waited for other blocks for about a
  // second. The counters must then be cleared.
  uint32_t* failed = nullptr;
};

// The scratch memory of a stream. All launches of the stream share it, since they run one after
// another. Movable.
class LinearScratchBuffer {
 public:
  static constexpr size_t kCounters = kMaxSplitTiles + 1;
  static constexpr size_t kCounterBytes = (kCounters * sizeof(uint32_t) + 15) / 16 * 16;
  static constexpr size_t kBytes =
      kLinearPieceBytes + kGroupSumsBytes + kMaxLinearRows * sizeof(float) + kCounterBytes;

  LinearScratchBuffer() = default;
  // Allocates the memory and clears the counters.
  static Result<LinearScratchBuffer> allocate();
  LinearScratchCuda view(uint32_t* failed) const;
  // Clears the counters after a launch has failed, while no launch is running.
  Status clear_counters() const;

 private:
  DeviceBuffer data_;
};

}  // namespace forerun::cuda
