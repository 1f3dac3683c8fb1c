// AutoGPTQ's and GPTQModel's layouts: 4 or 8 bits, in input order or sorted by activation
// ("desc_act").
#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>

#include "base/printable.h"
#include "checkpoint/layouts/name_pattern.h"
#include "checkpoint/layouts/weight_layout.h"

namespace forerun {
namespace {

constexpr size_t kGptqQweight = 0, kGptqQzeros = 1, kGptqScales = 2;

int64_t quants_a_word(const PartTensors& layer) { return 32 / layer.bits; }

constexpr LayoutPart kGptqParts[] = {
    {".qweight", "", PartRole::kNeeded, dtype_set({DType::kI32}),
     [](const PartTensors& layer, DType) {
       return Shapes{{layer.in / quants_a_word(layer), layer.out}};
     }},
    {".qzeros", "", PartRole::kNeeded, dtype_set({DType::kI32}),
     [](const PartTensors& layer, DType) {
       return Shapes{{layer.groups, layer.out / quants_a_word(layer)}};
     }},
    {".scales", "", PartRole::kNeeded, kFloats,
     [](const PartTensors& layer, DType) {
       return Shapes{{layer.groups, layer.out}};
     }},
    {".g_idx", "", PartRole::kOrder, dtype_set({DType::kI32}),
     [](const PartTensors& layer, DType) { return Shapes{{layer.in}}; }},
};

uint32_t quant_of(uint32_t word, int64_t index, int32_t bits) {
  return (word >> (index * bits)) & ((1u << bits) - 1u);
}

// A row of words has a word of each output; reads those of all requested outputs before the next
// row.
void gptq_quants(const PartTensors& layer, int64_t out, int64_t first, MatrixView<uint8_t> to) {
  const int64_t quants = quants_a_word(layer), last = first + to.dim(1);
  for (int64_t in = first; in < last;) {
    const int64_t row = in / quants;
    const int64_t end = std::min((row + 1) * quants, last);
    for (int64_t o = 0; o < to.dim(0); ++o) {
      const auto word = element_at<uint32_t>(layer[kGptqQweight], row * layer.out + out + o);
      unpack_inputs(word, layer.bits, in % quants, end - in, to.row(o) + in - first);
    }
    in = end;
  }
}

int16_t gptq_zero(const PartTensors& layer, int64_t out, int64_t group) {
  const int64_t quants = quants_a_word(layer);
  const auto word =
      element_at<uint32_t>(layer[kGptqQzeros], group * (layer.out / quants) + out / quants);
  return static_cast<int16_t>(static_cast<int32_t>(quant_of(word, out % quants, layer.bits)) +
                              layer.added_zero);
}

float gptq_scale(const PartTensors& layer, int64_t out, int64_t group) {
  return float_at(layer[kGptqScales], group * layer.out + out);
}

// Reads "dynamic": "-:PATTERN" lists layers that GPTQModel leaves out; other keys give layers their
// own options.
void read_dynamic(FieldReader& fields, QuantizationConfig& quantization) {
  const auto dynamic = fields.object("dynamic");
  if (!dynamic) return;
  for (const std::string& key : dynamic->keys()) {
    const std::string pattern = "re:" + (key.size() > 2 ? key.substr(2) : std::string());
    if (!key.starts_with("-:") || !is_readable_pattern(pattern)) {
      fields.refuse("dynamic",
                    "\"-:PATTERN\", which leaves layers out; " + std::string(kTakeTheOriginal),
                    StatusCode::kUnsupported, in_quotes(key));
      return;
    }
    quantization.left_out.push_back(pattern);
  }
}

// Reads names of layers, or lists of them.
void read_targets(FieldReader& fields, std::vector<std::string>& targets) {
  const auto* const list = fields.any_list("modules_in_block_to_quantize");
  if (list == nullptr) return;
  for (const auto& entry : *list) {
    const bool is_list = entry.is_array();
    for (size_t i = 0; i < (is_list ? entry.size() : 1); ++i) {
      const auto& name = is_list ? entry[i] : entry;
      if (!name.is_string()) {
        return fields.refuse("modules_in_block_to_quantize", "lists of names of layers");
      }
      targets.push_back(name.template get<std::string>());
    }
  }
}

}  // namespace

const WeightLayout kGptq = {.method = "GPTQ",
                            .label = "gptq",
                            .parts = kGptqParts,
                            .out_unit = quants_a_word,
                            .in_unit = quants_a_word,
                            .quants = gptq_quants,
                            .zero = gptq_zero,
                            .scale = gptq_scale,
                            .scale_part = kGptqScales,
                            .is_awq_gemm = false};

void read_gptq_fields(FieldReader& fields, QuantizationConfig& quantization) {
  LayerScheme scheme{.layout = &kGptq};
  scheme.bits = static_cast<int32_t>(fields.integer("bits", 1, 64).value_or(4));
  if (scheme.bits != 4 && scheme.bits != 8) {
    fields.refuse("bits", "4 or 8; " + std::string(kTakeTheOriginal), StatusCode::kUnsupported);
  }
  scheme.group_size = static_cast<int32_t>(fields.integer("group_size", -1, 1 << 20).value_or(-1));
  if (scheme.group_size == 0) {
    fields.refuse("group_size", "-1 (one group) or a divisor of every layer's input width");
  }
  scheme.has_order = fields.boolean("desc_act").value_or(false);
  // GPTQModel has begun to write the second name.
  const char* const format_field = fields.has("checkpoint_format") ? "checkpoint_format" : "format";
  const std::string format = fields.string(format_field).value_or("gptq");
  if (fields.truthy("is_marlin_format") || (format != "gptq" && format != "gptq_v2")) {
    const bool is_flag = format == "gptq" || format == "gptq_v2";
    fields.refuse(
        is_flag ? "is_marlin_format" : format_field,
        "\"gptq\" or \"gptq_v2\", not repacked for a kernel; " + std::string(kTakeTheOriginal),
        StatusCode::kUnsupported);
  }
  if (fields.boolean("lm_head").value_or(false)) {
    fields.refuse("lm_head",
                  "false: a quantized head is not read; " + std::string(kTakeTheOriginal),
                  StatusCode::kUnsupported);
  }
  if (fields.string("pack_dtype").value_or("int32") != "int32") {
    fields.refuse("pack_dtype", "\"int32\"; " + std::string(kTakeTheOriginal),
                  StatusCode::kUnsupported);
  }
  scheme.zeros_lack_one = format != "gptq_v2";
  read_dynamic(fields, quantization);
  read_left_out(fields, "modules_to_not_convert", quantization);
  read_targets(fields, scheme.targets);
  quantization.schemes.push_back(std::move(scheme));
}

}  // namespace forerun
