// Taps that a stage of a model on GPUs hands to the next one (Decoder::read_taps, write_taps): a
// kernel copies those of many rows between places of the store and page-locked memory.
//
// Belongs to the GPU that was current when it was allocated, and must be used while that GPU is
// current and runs no pass.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "device/cuda/cuda_memory.h"
#include "device/cuda/cuda_stream.h"
#include "forerun/status.h"
#include "model/cuda/tap_store.h"
#include "model/layer_range.h"
#include "step/step.h"

namespace forerun::cuda {

class HandedTapsCuda {
 public:
  HandedTapsCuda() = default;  // no taps, or a model that is not cut
  // `store`: that of the stage with these layers. It must outlive the object.
  static Result<HandedTapsCuda> allocate(const TapStoreCuda& store, const LayerRange& layers);

  // Appends to `rows` what these places hold, bf16 [taps][width]. kUnsupported where the model is
  // not cut.
  Status read(std::span<const StepTap> taps, std::vector<std::byte>& rows,
              const Stream& stream) const;
  // Writes into these places their taps in front of the layers, bf16 [taps][in front][hidden]. Both
  // wait for their copies. kInvalidArgument as check_written_taps().
  Status write(std::span<const StepTap> taps, std::span<const std::byte> rows,
               const Stream& stream) const;

 private:
  const TapStoreCuda* store_ = nullptr;  // null: no taps are handed on
  std::vector<size_t> in_front_;         // taps of the store that are handed in, in this order
  PinnedBuffer list_;                    // what a launch copies
  PinnedBuffer rows_;                    // rows of a launch, as they come or go: whole places fit
};

}  // namespace forerun::cuda
