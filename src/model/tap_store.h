// Hidden rows that stay on the device group that computed them: of chosen rows, behind chosen
// layers, in numbered places. A forward() writes them (Step::taps); a draft head reads them as
// features of its own rows.
//
// Each pipeline stage keeps the taps behind its own layers. The store of the last stage has room
// for all of them: earlier stages hand in those in front of its layers (Decoder::write_taps), in
// layer order.
//
// The store does not know which places hold a row: the composer of Steps allocates and frees
// places. Only the thread that runs the group and, during a forward(), its teams may use the store.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/dtype.h"
#include "checkpoint/model_config.h"
#include "forerun/status.h"
#include "model/layer_range.h"

namespace forerun {

struct TapOptions {
  // The number of the model's layers before each tap: 0 is the embedding, num_layers is the input
  // of the final norm. In the order of a row of the store. Empty for no taps.
  std::vector<int32_t> after_layers;
  int64_t places = 0;  // rows in the store
};

// Returns kInvalidArgument unless each tap follows the embedding, if the range has it, or one of
// the range's layers; a last stage may also have taps in front of its layers.
Status check_taps(const TapOptions& taps, const LayerRange& layers, const ModelConfig& config);

// Returns the taps that the stage of these layers keeps if the whole model keeps `taps`: all of
// them, unchanged, in the last stage; those behind its layers, ascending, in others.
TapOptions taps_of_stage(const TapOptions& taps, const LayerRange& layers);
// Returns the indices of those `after_layers` that lie in front of the layers, in layer order.
// Stages hand taps on in this order.
std::vector<size_t> taps_in_front(std::span<const int32_t> after_layers, const LayerRange& layers);

class TapStore {
 public:
  TapStore() = default;  // has no places
  // Allocates the store in host memory; the system allocates pages when places are first written.
  // `dtype` is kF32 or kBf16, the type to which hidden rows are rounded.
  TapStore(TapOptions options, int64_t hidden_size, DType dtype);

  int64_t places() const { return options_.places; }
  std::span<const int32_t> after_layers() const { return options_.after_layers; }
  DType dtype() const { return dtype_; }
  int64_t hidden_size() const { return hidden_size_; }
  // Returns the values per place: the hidden rows of all taps, one after the other.
  int64_t width() const {
    return static_cast<int64_t>(options_.after_layers.size()) * hidden_size_;
  }
  // Returns the bytes of all places.
  int64_t bytes() const { return places() * width() * dtype_bytes(dtype_); }

  // Returns a tap of a place: [hidden_size] elements of `dtype`.
  std::byte* tap(int32_t place, size_t tap_idx) {
    return bytes_.get() + offset(place, static_cast<int64_t>(tap_idx) * hidden_size_);
  }
  // Returns all taps of a place: [width] elements.
  const std::byte* row(int32_t place) const { return bytes_.get() + offset(place, 0); }

 private:
  size_t offset(int32_t place, int64_t element) const {
    return static_cast<size_t>((place * width() + element) * dtype_bytes(dtype_));
  }

  TapOptions options_;
  int64_t hidden_size_ = 0;
  DType dtype_ = DType::kF32;
  std::unique_ptr<std::byte[]> bytes_;
};

}  // namespace forerun
