// Readers of sections of config.json; each has its own source file. They are internal to
// checkpoint/ and record failures in the reader.
#pragma once

#include <cstddef>
#include <cstdint>

#include "checkpoint/model_config.h"
#include "json/field_reader.h"

namespace forerun {

// The largest accepted position of a configuration.
constexpr int64_t kMaxPosition = int64_t{1} << 30;
constexpr int64_t kMaxLayers = 4096;
constexpr int64_t kMaxWidth = 1 << 20;
constexpr int64_t kMaxVocab = 1 << 24;
constexpr size_t kMaxTaps = 8;  // largest number of taps of an EAGLE-3 head

// Sets rope_theta, rope_scaling and, if scaling extends it, max_position, which must hold
// max_position_embeddings before.
void read_rope(FieldReader& fields, ModelConfig& config);

// Sets quantization from "quantization_config". Refuses methods without a layout in
// checkpoint/layouts/ by name and says what converts them.
void read_quantization(FieldReader& fields, ModelConfig& config);

// Sets sliding_window for every layer.
void read_sliding_window(FieldReader& fields, ModelConfig& config);

// Sets the properties of the layers: shape, dtype, biases and norms, RoPE, windows; needs
// model_type.
void read_layers(FieldReader& fields, ModelConfig& config);

}  // namespace forerun
