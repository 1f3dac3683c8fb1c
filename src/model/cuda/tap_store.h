// The TapStore of a decoder on GPUs (model/tap_store.h): bf16, in the memory of the decoder's first
// GPU. Every GPU of a group has the whole residual stream, so one of them keeps the taps.
//
// Passes write and read places on the GPU; const methods may be called from many threads.
#pragma once

#include <cuda_bf16.h>

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/dtype.h"
#include "device/cuda/cuda_memory.h"
#include "forerun/status.h"
#include "model/tap_store.h"

namespace forerun::cuda {

class TapStoreCuda {
 public:
  TapStoreCuda() = default;  // has no places
  // Allocates a store on the current device.
  static Result<TapStoreCuda> allocate(const TapOptions& options, int64_t hidden_size);
  // Returns the bytes of all places.
  static int64_t bytes_of(const TapOptions& options, int64_t hidden_size) {
    return options.places * static_cast<int64_t>(options.after_layers.size()) * hidden_size *
           static_cast<int64_t>(sizeof(bf16));
  }

  int64_t places() const { return options_.places; }
  std::span<const int32_t> after_layers() const { return options_.after_layers; }
  int64_t hidden_size() const { return hidden_size_; }
  // Returns the values per place: the hidden rows of all taps, one after the other.
  int64_t width() const {
    return static_cast<int64_t>(options_.after_layers.size()) * hidden_size_;
  }
  // Returns [places][width].
  const __nv_bfloat16* data() const { return rows_.as<__nv_bfloat16>(); }
  // Returns this tap of place 0.
  __nv_bfloat16* tap(size_t tap_idx) const {
    return rows_.as<__nv_bfloat16>() + static_cast<int64_t>(tap_idx) * hidden_size_;
  }
  // Copies a place to the host, bf16 [width]. The store's GPU must be current, and no pass may run.
  Status download(int32_t place, std::span<bf16> row) const;

 private:
  TapOptions options_;
  int64_t hidden_size_ = 0;
  DeviceBuffer rows_;
};

}  // namespace forerun::cuda
