// A layout: the way in which several tensors store the weight of a linear layer. Each layout has a
// file in this folder and an entry in the table of weight_layouts.cc. Internal to checkpoint/.
//
// The table is constant.
#pragma once

#include <cstdint>
#include <cstring>
#include <initializer_list>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/dtype.h"
#include "base/tensor_view.h"
#include "checkpoint/layouts/weight_parts.h"
#include "checkpoint/model_config.h"
#include "json/field_reader.h"

namespace forerun {

enum class PartRole : uint8_t {
  kNeeded,
  kZeros,    // required if the scheme has zero points; otherwise absent, or all zero bytes
  kOrder,    // i32 [in]: the group of each input; required if the scheme has an order
  kShape,    // its values are [out, in]
  kNotRead,  // optional and ignored: scales of activations
};

constexpr uint32_t dtype_set(std::initializer_list<DType> dtypes) {
  uint32_t set = 0;
  for (const DType dtype : dtypes) set |= 1u << static_cast<unsigned>(dtype);
  return set;
}
constexpr bool is_in(DType dtype, uint32_t set) {
  return (set >> static_cast<unsigned>(dtype) & 1u) != 0;
}
inline constexpr uint32_t kFloats = dtype_set({DType::kF16, DType::kBf16, DType::kF32});

using Shapes = std::vector<std::vector<int64_t>>;

struct LayoutPart {
  std::string_view suffix;        // ".qweight"
  std::string_view other_suffix;  // an alternative name, or ""
  PartRole role;
  uint32_t dtypes;                                       // dtype_set()
  Shapes (*shapes)(const PartTensors& layer, DType of);  // accepted shapes; null for kNotRead
};

struct WeightLayout {
  std::string_view method;  // for messages: "AWQ"
  std::string_view label;   // start of WeightParts::name(): "awq", before "-int4"
  // A layer has this layout if it has the first part, other than as plain floats.
  std::span<const LayoutPart> parts;
  // Return numbers of which the layer's extents must be multiples.
  int64_t (*out_unit)(const PartTensors& layer);
  int64_t (*in_unit)(const PartTensors& layer);
  // For integers: reads the quants of outputs from `out` on and inputs from `in` on, in the file's
  // order, to `to` [outputs][inputs]. Null for floats, which have their codes in the first part.
  void (*quants)(const PartTensors& layer, int64_t out, int64_t in, MatrixView<uint8_t> to);
  int16_t (*zero)(const PartTensors& layer, int64_t out, int64_t group);
  // Returns the scale of a group, or of a block of inputs.
  float (*scale)(const PartTensors& layer, int64_t out, int64_t group);
  // Index of the part with the scales; it determines their dtype.
  size_t scale_part;
  // True if `parts` are AutoAWQ's qweight, qzeros and scales.
  bool is_awq_gemm;
};

extern const WeightLayout kAwqGemm, kAwqGemv, kAwqGemvFast, kGptq, kPackedIntegers, kBytes,
    kScaledFloats;
std::span<const WeightLayout* const> weight_layouts();

// Returns "awq-int4", "ct-int8" (compressed-tensors), "fp8" and the like.
std::string layout_name(const LayerScheme& scheme);

// Returns the scheme of a layer by its name, or null if the layer is plain.
const LayerScheme* scheme_of(const QuantizationConfig& quantization, std::string_view module);
// Returns whether a layer may be plain, by its name, although it has a scheme.
bool is_left_out(const QuantizationConfig& quantization, std::string_view module);
// Returns whether a layer must be plain; a part of a name that could mean another module does not
// count.
bool must_be_plain(const QuantizationConfig& quantization, std::string_view module);

// Readers of quantization_config, one per method. They record failures in the reader.
void read_awq_fields(FieldReader& fields, QuantizationConfig& quantization);
void read_gptq_fields(FieldReader& fields, QuantizationConfig& quantization);
void read_fp8_fields(FieldReader& fields, QuantizationConfig& quantization);
void read_compressed_tensors_fields(FieldReader& fields, QuantizationConfig& quantization);

// Reads a list of layers that stay plain; refuses unsupported patterns.
void read_left_out(FieldReader& fields, std::string_view field, QuantizationConfig& quantization);

// Advice at the end of every refused description.
inline constexpr std::string_view kTakeTheOriginal =
    "take the original bf16 or f16 checkpoint, a GGUF file of it, or another quantization of it";

// Returns a text such as "[128, 128]".
std::string list_text(const std::vector<int64_t>& values);
inline int64_t divided(int64_t count, int64_t unit) { return (count + unit - 1) / unit; }
inline int64_t any_extent(const PartTensors&) { return 1; }

template <class T>
T element_at(const RawTensor& tensor, int64_t index) {
  T value;  // safetensors does not align tensors
  std::memcpy(&value, tensor.bytes.data() + index * static_cast<int64_t>(sizeof(T)), sizeof(T));
  return value;
}
// Returns an element of f16, bf16 or f32.
float float_at(const RawTensor& tensor, int64_t index);

// Implements WeightLayout::quants for a layout with separate outputs, by a function that reads
// `count` inputs of one.
template <void (*kRow)(const PartTensors& layer, int64_t out, int64_t in, int64_t count,
                       uint8_t* to)>
void quants_by_row(const PartTensors& layer, int64_t out, int64_t in, MatrixView<uint8_t> to) {
  for (int64_t row = 0; row < to.dim(0); ++row) {
    kRow(layer, out + row, in, to.dim(1), to.row(row));
  }
}

// Unpacks the quants of a word, the lowest bits first: 8 of 4 bits or 4 of 8 bits.
inline void unpack_word(uint32_t word, int32_t bits, uint8_t* to) {
  if (bits == 8) {
    std::memcpy(to, &word, sizeof word);
    return;
  }
  uint64_t spread = word;
  spread = (spread | spread << 16) & 0x0000ffff0000ffffu;
  spread = (spread | spread << 8) & 0x00ff00ff00ff00ffu;
  spread = (spread | spread << 4) & 0x0f0f0f0f0f0f0f0fu;
  std::memcpy(to, &spread, sizeof spread);
}
// Unpacks `count` quants of a word, from number `first` on.
inline void unpack_inputs(uint32_t word, int32_t bits, int64_t first, int64_t count, uint8_t* to) {
  if (count == 32 / bits) return unpack_word(word, bits, to);
  uint8_t all[8];
  unpack_word(word, bits, all);
  std::memcpy(to, all + first, static_cast<size_t>(count));
}

}  // namespace forerun
