// Hidden rows that stay on the device group that computed them: of chosen rows, behind chosen
// layers, in numbered places. A forward writes them (Step::taps); a draft head reads them as
// features of its own rows.
//
// In a model that is cut into stages each stage keeps the taps behind its own layers. The store of
// the last one has room for all of them: those in front of its layers are handed in
// (Decoder::write_taps), in the order of the layers.
//
// The store does not know which places hold a row: whoever composes Steps gives places away and
// takes them back. Used by the thread that runs the group and, during a forward, by its teams.
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
  // After how many of the model's layers each tap is taken: 0 is the embedding, num_layers is what
  // the final norm reads. In the order in which a row of the store holds them. Empty: no taps.
  std::vector<int32_t> after_layers;
  int64_t places = 0;  // rows that the store holds
};

// kInvalidArgument unless the taps are taken where these layers end: after the embedding, if the
// range has it, or after one of its layers; of a last stage also in front of them.
Status check_taps(const TapOptions& taps, const LayerRange& layers, const ModelConfig& config);

// What the stage of these layers keeps where the whole model keeps `taps`: the last one all of
// them, as they are, others those behind their layers, ascending, or nothing.
TapOptions taps_of_stage(const TapOptions& taps, const LayerRange& layers);
// Which of `after_layers` are taken in front of the layers: indices, by ascending layers. Stages
// one after another hand them on in this order.
std::vector<size_t> taps_in_front(std::span<const int32_t> after_layers, const LayerRange& layers);

class TapStore {
 public:
  TapStore() = default;  // no places
  // In host memory, whose pages are allocated as places are first written. `dtype`: kF32 or kBf16,
  // the type to which hidden rows are rounded.
  TapStore(TapOptions options, int64_t hidden_size, DType dtype);

  int64_t places() const { return options_.places; }
  std::span<const int32_t> after_layers() const { return options_.after_layers; }
  DType dtype() const { return dtype_; }
  int64_t hidden_size() const { return hidden_size_; }
  // The values of a place: a hidden row for each tap, one behind the other.
  int64_t width() const {
    return static_cast<int64_t>(options_.after_layers.size()) * hidden_size_;
  }
  // All places.
  int64_t bytes() const { return places() * width() * dtype_bytes(dtype_); }

  // A tap of a place: [hidden_size] elements of `dtype`.
  std::byte* tap(int32_t place, size_t tap_idx) {
    return bytes_.get() + offset(place, static_cast<int64_t>(tap_idx) * hidden_size_);
  }
  // All taps of a place: [width] elements.
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
