// compressed-tensors' layouts: pack-quantized words, and int8 weights of int-quantized and
// naive-quantized. scaled_floats.cc reads the e4m3 weights of float-quantized and naive-quantized.
//
// This engine never quantizes activations, whatever the scheme says about them.
#include <algorithm>
#include <string>
#include <utility>

#include "base/printable.h"
#include "checkpoint/layouts/name_pattern.h"
#include "checkpoint/layouts/weight_layout.h"

namespace forerun {
namespace {

constexpr size_t kIntWeight = 0, kIntScale = 1, kIntZero = 2;

int64_t packed_in_a_word(const PartTensors& layer) { return 32 / layer.bits; }

// Returns [out][groups]; with one scale per output the second extent may be missing, and with a
// single scale the tensor has one element.
Shapes scale_shapes(const PartTensors& layer, DType) {
  Shapes shapes = {{layer.out, layer.groups}};
  if (layer.groups == 1) {
    for (const std::vector<int64_t>& shape : Shapes{{layer.out}, {1}, {}, {1, 1}}) {
      shapes.push_back(shape);
    }
  }
  return shapes;
}

float output_scale(const PartTensors& layer, int64_t out, int64_t group) {
  const RawTensor& scale = layer[kIntScale];
  const bool is_tensors = scale.bytes.size() == dtype_bytes(scale.dtype);
  return float_at(scale, is_tensors ? 0 : out * layer.groups + group);
}

// Zeros are signed in the tensor, and packed along outputs in words, or bytes in older files.
Shapes packed_zero_shapes(const PartTensors& layer, DType dtype) {
  if (dtype != DType::kI32) return {{layer.out, layer.groups}};
  return {{divided(layer.out, packed_in_a_word(layer)), layer.groups}};
}

Shapes byte_zero_shapes(const PartTensors& layer, DType dtype) {
  return scale_shapes(layer, dtype);
}

int16_t signed_zero(const PartTensors& layer, int64_t out, int64_t group, int32_t middle) {
  const RawTensor& zero = layer[kIntZero];
  const bool is_tensors = zero.bytes.size() == 1;
  return static_cast<int16_t>(
      element_at<int8_t>(zero, is_tensors ? 0 : out * layer.groups + group) + middle);
}

int16_t packed_zero(const PartTensors& layer, int64_t out, int64_t group) {
  const int32_t middle = 1 << (layer.bits - 1);
  if (!layer.has(kIntZero)) return static_cast<int16_t>(middle);
  if (layer[kIntZero].dtype != DType::kI32) return signed_zero(layer, out, group, middle);
  const int64_t quants = packed_in_a_word(layer);
  const auto word = element_at<uint32_t>(layer[kIntZero], out / quants * layer.groups + group);
  return static_cast<int16_t>((word >> (out % quants * layer.bits)) & ((1u << layer.bits) - 1u));
}

void packed_quants(const PartTensors& layer, int64_t out, int64_t first, int64_t count,
                   uint8_t* to) {
  const int64_t quants = packed_in_a_word(layer);
  const int64_t words = divided(layer.in, quants);
  for (int64_t in = first; in < first + count;) {
    const auto word = element_at<uint32_t>(layer[kIntWeight], out * words + in / quants);
    const int64_t end = std::min((in / quants + 1) * quants, first + count);
    unpack_inputs(word, layer.bits, in % quants, end - in, to + in - first);
    in = end;
  }
}

constexpr LayoutPart kPackedParts[] = {
    {".weight_packed", "", PartRole::kNeeded, dtype_set({DType::kI32}),
     [](const PartTensors& layer, DType) {
       return Shapes{{layer.out, divided(layer.in, packed_in_a_word(layer))}};
     }},
    {".weight_scale", "", PartRole::kNeeded, kFloats, scale_shapes},
    {".weight_zero_point", "", PartRole::kZeros, dtype_set({DType::kI32, DType::kI8}),
     packed_zero_shapes},
    {".weight_shape", "", PartRole::kShape, dtype_set({DType::kI64, DType::kI32}),
     [](const PartTensors&, DType) { return Shapes{{2}}; }},
    {".weight_g_idx", "", PartRole::kOrder, dtype_set({DType::kI32, DType::kI64}),
     [](const PartTensors& layer, DType) { return Shapes{{layer.in}}; }},
    {".input_scale", "", PartRole::kNotRead, 0, nullptr},
    {".input_zero_point", "", PartRole::kNotRead, 0, nullptr},
};

int16_t byte_zero(const PartTensors& layer, int64_t out, int64_t group) {
  return layer.has(kIntZero) ? signed_zero(layer, out, group, 128) : int16_t{128};
}

void byte_quants(const PartTensors& layer, int64_t out, int64_t first, int64_t count, uint8_t* to) {
  for (int64_t i = 0; i < count; ++i) {
    to[i] = static_cast<uint8_t>(element_at<int8_t>(layer[kIntWeight], out * layer.in + first + i) +
                                 128);
  }
}

constexpr LayoutPart kByteParts[] = {
    {".weight", "", PartRole::kNeeded, dtype_set({DType::kI8}),
     [](const PartTensors& layer, DType) {
       return Shapes{{layer.out, layer.in}};
     }},
    {".weight_scale", "", PartRole::kNeeded, kFloats, scale_shapes},
    {".weight_zero_point", "", PartRole::kZeros, dtype_set({DType::kI8}), byte_zero_shapes},
    {".weight_g_idx", "", PartRole::kOrder, dtype_set({DType::kI32, DType::kI64}),
     [](const PartTensors& layer, DType) { return Shapes{{layer.in}}; }},
    {".input_scale", "", PartRole::kNotRead, 0, nullptr},
    {".input_zero_point", "", PartRole::kNotRead, 0, nullptr},
};

// Reads the group's "weights". `format` is the group's own, or the common one.
void read_weights(FieldReader& weights, const std::string& format, LayerScheme& scheme) {
  const auto refuse = [&](const char* field, const std::string& accepted) {
    weights.refuse(field, accepted + "; " + std::string(kTakeTheOriginal),
                   StatusCode::kUnsupported);
  };
  const int64_t bits = weights.integer("num_bits", 1, 64).value_or(8);
  const std::string type = weights.string("type").value_or("int");
  const bool is_float = type == "float";
  if (type != "int" && !is_float) return refuse("type", "\"int\" or \"float\"");
  if (is_float ? bits != 8 : bits != 4 && bits != 8) {
    return refuse("num_bits", is_float ? "8" : "4 or 8");
  }
  if (weights.truthy("dynamic")) return refuse("dynamic", "false, for weights");
  scheme.layout = is_float                     ? &kScaledFloats
                  : format == "pack-quantized" ? &kPackedIntegers
                                               : &kBytes;
  scheme.bits = scheme.layout == &kPackedIntegers ? static_cast<int32_t>(bits) : 8;

  const auto group = weights.integer("group_size", -1, 1 << 20);
  const char* const implied = group.value_or(0) > 0     ? "group"
                              : group.value_or(0) == -1 ? "channel"
                                                        : "tensor";
  const std::string strategy = weights.string("strategy").value_or(implied);
  scheme.group_size = is_float ? 0 : -1;
  if (strategy == "group" && !is_float) {
    scheme.group_size = static_cast<int32_t>(group.value_or(0));
    if (scheme.group_size < 1) weights.refuse("group_size", "a divisor of every layer's width");
  } else if (strategy == "block" && is_float) {
    const auto block = weights.integers("block_structure", 1, 1 << 20);
    if (!block || *block != std::vector<int64_t>{128, 128}) {
      weights.refuse("block_structure", "[128, 128]; " + std::string(kTakeTheOriginal),
                     StatusCode::kUnsupported, block ? list_text(*block) : std::string("nothing"));
      return;
    }
    scheme.block_size = 128;
  } else if (strategy != "channel" && strategy != "tensor") {
    return refuse("strategy", is_float ? "\"tensor\", \"channel\" or \"block\""
                                       : "\"tensor\", \"channel\" or \"group\"");
  }
  scheme.has_zeros = !weights.boolean("symmetric").value_or(true);
  if (is_float && scheme.has_zeros) return refuse("symmetric", "true with float weights");
  // "weight" and "static" only tell in which order a group's weights were rounded.
  if (!weights.truthy("actorder")) return;
  const std::string name =
      weights.choice("actorder", {"group", "dynamic", "weight", "static"}).value_or("weight");
  scheme.has_order = name == "group" || name == "dynamic";
  if (scheme.has_order && is_float) refuse("actorder", "null with float weights");
}

void read_group(FieldReader& group, const std::string& format_of_all, LayerScheme& scheme) {
  const bool has_format = group.has("format");
  const std::string format = has_format ? group.string("format").value_or("") : format_of_all;
  bool is_known = false;
  for (const char* known :
       {"pack-quantized", "int-quantized", "float-quantized", "naive-quantized"}) {
    is_known = is_known || format == known;
  }
  if (!is_known) {
    group.refuse("format",
                 "\"pack-quantized\", \"int-quantized\", \"float-quantized\" or "
                 "\"naive-quantized\"; " +
                     std::string(kTakeTheOriginal),
                 StatusCode::kUnsupported, in_quotes(format));
    return;
  }
  scheme.targets = group.strings("targets").value_or(std::vector<std::string>());
  if (scheme.targets.empty()) group.refuse("targets", "a list of layers, such as [\"Linear\"]");
  for (const std::string& target : scheme.targets) {
    if (!is_readable_pattern(target)) {
      group.refuse("targets",
                   "names of layers and simple patterns; " + std::string(kTakeTheOriginal),
                   StatusCode::kUnsupported, in_quotes(target));
    }
  }
  auto weights = group.object("weights");
  if (!weights) {
    group.refuse("weights",
                 "a description of how the weights are quantized, not the activations alone; " +
                     std::string(kTakeTheOriginal),
                 StatusCode::kUnsupported);
    return;
  }
  read_weights(*weights, format, scheme);
  const bool is_float = scheme.layout == &kScaledFloats;
  const bool fits = format == "naive-quantized" || (format == "float-quantized") == is_float;
  if (!fits) {
    group.refuse(
        "format",
        std::string(is_float ? "\"float-quantized\" for weights of type \"float\", or type \"int\""
                             : "\"pack-quantized\" or \"int-quantized\" for weights of type "
                               "\"int\", or type \"float\"") +
            " in the group's weights; " + std::string(kTakeTheOriginal),
        StatusCode::kUnsupported, in_quotes(format));
  }
}

}  // namespace

const WeightLayout kPackedIntegers = {.method = "compressed-tensors",
                                      .label = "ct",
                                      .parts = kPackedParts,
                                      .out_unit = any_extent,
                                      .in_unit = any_extent,
                                      .quants = quants_by_row<packed_quants>,
                                      .zero = packed_zero,
                                      .scale = output_scale,
                                      .scale_part = kIntScale,
                                      .is_awq_gemm = false};
const WeightLayout kBytes = {.method = "compressed-tensors",
                             .label = "ct",
                             .parts = kByteParts,
                             .out_unit = any_extent,
                             .in_unit = any_extent,
                             .quants = quants_by_row<byte_quants>,
                             .zero = byte_zero,
                             .scale = output_scale,
                             .scale_part = kIntScale,
                             .is_awq_gemm = false};

void read_compressed_tensors_fields(FieldReader& fields, QuantizationConfig& quantization) {
  quantization.names_in_full = true;
  if (const auto sparsity = fields.object("sparsity_config")) {
    FieldReader sparse = *sparsity;
    const std::string format = sparse.string("format").value_or("dense");
    if (format != "dense") {
      sparse.refuse("format", "\"dense\"; " + std::string(kTakeTheOriginal),
                    StatusCode::kUnsupported);
    }
  }
  if (auto transforms = fields.object("transform_config")) {
    const std::vector<std::string> keys = transforms->keys();
    if (std::any_of(keys.begin(), keys.end(),
                    [&](const auto& key) { return transforms->truthy(key); })) {
      fields.refuse(
          "transform_config",
          "none: no transform of inputs or weights is applied; " + std::string(kTakeTheOriginal),
          StatusCode::kUnsupported);
    }
  }
  // "frozen" says that scales are final; some writers leave it in compressed files. vLLM reads the
  // tensors whatever it says. With an earlier status the scales may belong to no weight.
  const std::string status = fields.string("quantization_status").value_or("compressed");
  if (status != "compressed" && status != "frozen") {
    fields.refuse("quantization_status",
                  "\"compressed\" or \"frozen\"; " + std::string(kTakeTheOriginal),
                  StatusCode::kUnsupported);
  }
  const std::string format = fields.string("format").value_or("");
  const auto groups = fields.object("config_groups");
  const std::vector<std::string> names = groups ? groups->keys() : std::vector<std::string>();
  if (names.empty()) {
    fields.refuse("config_groups",
                  "groups of layers with their weights; " + std::string(kTakeTheOriginal),
                  StatusCode::kUnsupported);
    return;
  }
  for (const std::string& name : names) {
    auto group = FieldReader(*groups).object(name);
    if (!group) {
      fields.refuse("config_groups", "an object for each group", StatusCode::kUnsupported,
                    in_quotes(name));
      return;
    }
    LayerScheme scheme;
    read_group(*group, format, scheme);
    quantization.schemes.push_back(std::move(scheme));
  }
  read_left_out(fields, "ignore", quantization);
}

}  // namespace forerun
