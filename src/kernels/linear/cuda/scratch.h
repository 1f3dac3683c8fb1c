// Device memory through which the blocks of one launch for many rows tell one another what they
// found (linear/cuda/tiles.cu): parts of sums, and the norms of rows.
#pragma once

#include <cstdint>
#include <utility>

#include "device/cuda/cuda_memory.h"
#include "forerun/status.h"
#include "kernels/linear/cuda/tile_plan.h"

namespace forerun::cuda {

struct LinearScratchCuda {
  float* sums = nullptr;         // kLinearPieceBytes
  float* inverse_rms = nullptr;  // [kMaxLinearRows]
  // Counters, 0 before and after a launch: [kMaxSplitTiles] of tiles, then one of inverse_rms.
  uint32_t* arrivals = nullptr;
  // A word that the device can write: set where blocks have waited for one another in vain, which
  // they do for a second. The counters must then be cleared.
  uint32_t* failed = nullptr;
};

// Of all launches of a stream, which run one after the other. Movable.
class LinearScratchBuffer {
 public:
  static constexpr size_t kCounters = kMaxSplitTiles + 1;
  static constexpr size_t kCounterBytes = (kCounters * sizeof(uint32_t) + 15) / 16 * 16;
  static constexpr size_t kBytes =
      kLinearPieceBytes + kMaxLinearRows * sizeof(float) + kCounterBytes;

  LinearScratchBuffer() = default;
  // With cleared counters.
  static Result<LinearScratchBuffer> allocate();
  LinearScratchCuda view(uint32_t* failed) const;
  // For when a launch has failed, none being under way.
  Status clear_counters() const;

 private:
  DeviceBuffer data_;
};

}  // namespace forerun::cuda
