// Parts of config.json that have a file of their own. Internal to checkpoint/; failures are
// recorded in the reader.
#pragma once

#include <cstddef>
#include <cstdint>

#include "checkpoint/model_config.h"
#include "json/field_reader.h"

namespace forerun {

// The largest position that a configuration may name.
constexpr int64_t kMaxPosition = int64_t{1} << 30;
constexpr int64_t kMaxLayers = 4096;
constexpr int64_t kMaxWidth = 1 << 20;
constexpr int64_t kMaxVocab = 1 << 24;
constexpr size_t kMaxTaps = 8;  // taps of an EAGLE-3 head

// Sets rope_theta, rope_scaling and, where scaling extends it, max_position; expects max_position
// to hold max_position_embeddings.
void read_rope(FieldReader& fields, ModelConfig& config);

// Sets quantization from "quantization_config". Methods that no layout of checkpoint/layouts/ has
// are refused by name with what to convert them with.
void read_quantization(FieldReader& fields, ModelConfig& config);

// Sets sliding_window for every layer.
void read_sliding_window(FieldReader& fields, ModelConfig& config);

// Sets what the layers are: shape, dtype, biases and norms, rope, windows; expects model_type.
void read_layers(FieldReader& fields, ModelConfig& config);

}  // namespace forerun
