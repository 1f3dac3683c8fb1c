// A layout: how several tensors store the weight of a linear layer. Each layout is a file of this
// folder and a line of the table in weight_layouts.cc. Internal to checkpoint/.
//
// Thread rules: the table is constant.
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
  kZeros,    // there if the scheme has zero points; else absent, or all zero bytes
  kOrder,    // i32 [in]: the group of each input; needed if the scheme has an order
  kShape,    // the values are [out, in]
  kNotRead,  // may be there and means nothing here: scales of activations
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
  std::string_view other_suffix;  // another name for it, or ""
  PartRole role;
  uint32_t dtypes;                                       // dtype_set()
  Shapes (*shapes)(const PartTensors& layer, DType of);  // the accepted ones; null for kNotRead
};

struct WeightLayout {
  std::string_view method;  // as messages call it: "AWQ"
  std::string_view label;   // name in WeightParts::name(): "awq", to which "-int4" is added
  // A layer that has the first part, and not as plain floats, has this layout.
  std::span<const LayoutPart> parts;
  // The layer's extents must be multiples of these.
  int64_t (*out_unit)(const PartTensors& layer);
  int64_t (*in_unit)(const PartTensors& layer);
  // Integers: quants of outputs from `out` on and inputs from `in` on, in the file's order, for
  // `to` [outputs][inputs]. Null for floats, whose codes are the first part.
  void (*quants)(const PartTensors& layer, int64_t out, int64_t in, MatrixView<uint8_t> to);
  int16_t (*zero)(const PartTensors& layer, int64_t out, int64_t group);
  // The scale of a group, or of a block of inputs.
  float (*scale)(const PartTensors& layer, int64_t out, int64_t group);
  // Which part holds the scales; their dtype is looked up there.
  size_t scale_part;
  // Whether `parts` are AutoAWQ's qweight, qzeros and scales.
  bool is_awq_gemm;
};

extern const WeightLayout kAwqGemm, kAwqGemv, kAwqGemvFast, kGptq, kPackedIntegers, kBytes,
    kScaledFloats;
std::span<const WeightLayout* const> weight_layouts();

// "awq-int4", "ct-int8" (compressed-tensors), "fp8".
std::string layout_name(const LayerScheme& scheme);

// The scheme that a layer has by its name; null: it is plain.
const LayerScheme* scheme_of(const QuantizationConfig& quantization, std::string_view module);
// Whether a layer may be plain under its name, though it has a scheme.
bool is_left_out(const QuantizationConfig& quantization, std::string_view module);
// Whether a layer must be plain: no part of a name that could mean another module.
bool must_be_plain(const QuantizationConfig& quantization, std::string_view module);

// Readers of quantization_config, one a method. Failures are recorded in the reader.
void read_awq_fields(FieldReader& fields, QuantizationConfig& quantization);
void read_gptq_fields(FieldReader& fields, QuantizationConfig& quantization);
void read_fp8_fields(FieldReader& fields, QuantizationConfig& quantization);
void read_compressed_tensors_fields(FieldReader& fields, QuantizationConfig& quantization);

// Reads a list of layers that stay plain; refuses patterns that cannot be read.
void read_left_out(FieldReader& fields, std::string_view field, QuantizationConfig& quantization);

// What every refusal of a description recommends.
inline constexpr std::string_view kTakeTheOriginal =
    "take the original bf16 or f16 checkpoint, a GGUF file of it, or another quantization of it";

// "[128, 128]"
std::string list_text(const std::vector<int64_t>& values);
inline int64_t divided(int64_t count, int64_t unit) { return (count + unit - 1) / unit; }
inline int64_t any_extent(const PartTensors&) { return 1; }

template <class T>
T element_at(const RawTensor& tensor, int64_t index) {
  T value;  // safetensors aligns nothing
  std::memcpy(&value, tensor.bytes.data() + index * static_cast<int64_t>(sizeof(T)), sizeof(T));
  return value;
}
// An element of f16, bf16 or f32.
float float_at(const RawTensor& tensor, int64_t index);

// WeightLayout::quants of a layout whose outputs lie apart, by a function for `count` inputs of
// one.
template <void (*kRow)(const PartTensors& layer, int64_t out, int64_t in, int64_t count,
                       uint8_t* to)>
void quants_by_row(const PartTensors& layer, int64_t out, int64_t in, MatrixView<uint8_t> to) {
  for (int64_t row = 0; row < to.dim(0); ++row) {
    kRow(layer, out + row, in, to.dim(1), to.row(row));
  }
}

// The quants of a word, the lowest bits first: 8 of 4 bits or 4 of 8 bits.
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
// The same for `count` quants of the word, from number `first` on.
inline void unpack_inputs(uint32_t word, int32_t bits, int64_t first, int64_t count, uint8_t* to) {
  if (count == 32 / bits) return unpack_word(word, bits, to);
  uint8_t all[8];
  unpack_word(word, bits, all);
  std::memcpy(to, all + first, static_cast<size_t>(count));
}

}  // namespace forerun
