#include <algorithm>
#include <iterator>
#include <string>

#include "base/lower_case.h"
#include "base/printable.h"
#include "checkpoint/config_sections.h"
#include "checkpoint/layouts/weight_layout.h"
#include "checkpoint/modules.h"

namespace forerun {
namespace {

// A value of quant_method and the reader of the other fields.
struct Method {
  const char* name;
  void (*read)(FieldReader&, QuantizationConfig&);
};

constexpr Method kMethods[] = {
    {"awq", read_awq_fields},
    {"gptq", read_gptq_fields},
    {"compressed-tensors", read_compressed_tensors_fields},
    {"fp8", read_fp8_fields},
};

std::string accepted_methods() {
  std::string text;
  for (const Method& method : kMethods) text += in_quotes(method.name) + ", ";
  return text + "or no quantization; " + std::string(kTakeTheOriginal);
}

std::string method_of(FieldReader& quantization) {
  if (const auto method = quantization.string("quant_method")) return lower_case(*method);
  // These files are older than quant_method.
  if (quantization.has("load_in_4bit") || quantization.has("load_in_8bit")) return "bitsandbytes";
  if (quantization.has("desc_act")) return "gptq";
  if (quantization.has("config_groups")) return "compressed-tensors";
  if (quantization.has("version") || quantization.has("w_bit")) return "awq";
  return "";
}

}  // namespace

double bytes_per_weight(const QuantizationConfig& quantization, const Module& module) {
  const LayerScheme* const scheme =
      scheme_of(quantization, module_name(module.id, ModuleNaming::kHuggingFace));
  if (scheme == nullptr) return 0;
  return scheme->bits / 8.0 + (scheme->group_size > 0 ? 4.0 / scheme->group_size : 0.0);
}

void read_quantization(FieldReader& fields, ModelConfig& config) {
  if (const auto mlx = fields.object("quantization"); mlx && mlx->has("bits")) {
    fields.refuse(
        "quantization",
        accepted_methods() + "; this is MLX's own description, not of quantization_config",
        StatusCode::kUnsupported, "MLX's quantization");
  }
  for (const char* field : {"compression_config", "quantization_config"}) {
    auto quantization = fields.object(field);
    if (!quantization) continue;
    const std::string name = method_of(*quantization);
    const auto method = std::find_if(std::begin(kMethods), std::end(kMethods),
                                     [&](const Method& each) { return name == each.name; });
    if (method == std::end(kMethods)) {
      quantization->refuse("quant_method", accepted_methods(), StatusCode::kUnsupported,
                           name.empty() ? "nothing that names a method" : in_quotes(name));
      continue;
    }
    config.quantization = {};  // a file with both fields says the same twice
    method->read(*quantization, config.quantization);
    config.quantization.kind = QuantizationConfig::Kind::kParts;
  }
}

}  // namespace forerun
