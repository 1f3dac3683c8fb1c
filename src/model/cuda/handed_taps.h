// Taps that a pipeline stage on GPUs hands to the next one (Decoder::read_taps, write_taps): a
// kernel copies those of many rows between the store's places and page-locked memory.
//
// An object belongs to the GPU that was current at its allocation. Use it only while that GPU is
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
  HandedTapsCuda() = default;  // for decoders without taps or stages
  // `store` is the store of the stage with these layers. It must outlive the object.
  static Result<HandedTapsCuda> allocate(const TapStoreCuda& store, const LayerRange& layers);

  // Appends the contents of these places to `rows`, bf16 [taps][width]. Returns kUnsupported if the
  // model has no stages.
  Status read(std::span<const StepTap> taps, std::vector<std::byte>& rows,
              const Stream& stream) const;
  // Writes the taps in front of the layers, bf16 [taps][in front][hidden], to these places. Both
  // functions wait for their copies. Returns kInvalidArgument as check_written_taps() does.
  Status write(std::span<const StepTap> taps, std::span<const std::byte> rows,
               const Stream& stream) const;

 private:
  const TapStoreCuda* store_ = nullptr;  // null if no taps are handed on
  std::vector<size_t> in_front_;  // taps of the store that earlier stages hand in, in this order
  PinnedBuffer list_;             // the copies of a launch
  PinnedBuffer rows_;             // input or output rows of a launch: whole places fit
};

}  // namespace forerun::cuda
