#include <algorithm>
#include <cctype>
#include <string>

#include "base/printable.h"
#include "checkpoint/config_sections.h"

namespace forerun {
namespace {

constexpr const char* kAcceptedQuantization =
    "AWQ with 4 bits, version \"gemm\" (as AutoAWQ writes it), or no quantization; ";

std::string lower(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return text;
}

// Says how to convert a checkpoint of this method to one that is accepted.
std::string conversion_advice(const std::string& method) {
  if (method == "bitsandbytes" || method.find("fp8") != std::string::npos) {
    return "take the original bf16 or f16 checkpoint (it was quantized from one), or quantize that "
           "with AutoAWQ";
  }
  return "take the original bf16 or f16 checkpoint, or quantize that with AutoAWQ";
}

std::string method_of(FieldReader& quantization) {
  if (const auto method = quantization.string("quant_method")) return lower(*method);
  // Files older than quant_method.
  if (quantization.has("load_in_4bit") || quantization.has("load_in_8bit")) return "bitsandbytes";
  if (quantization.has("desc_act")) return "gptq";
  if (quantization.has("version") || quantization.has("w_bit")) return "awq";
  return "";
}

}  // namespace

void read_awq_fields(FieldReader& awq, QuantizationConfig& quantization) {
  quantization.kind = QuantizationConfig::Kind::kAwq;
  const char* bits_field = awq.has("bits") ? "bits" : "w_bit";
  quantization.bits = static_cast<int32_t>(awq.integer(bits_field, 1, 64).value_or(4));
  if (quantization.bits != 4) awq.refuse(bits_field, "4", StatusCode::kUnsupported);

  const auto version = awq.string("version");
  if (version && lower(*version) != "gemm") {
    awq.refuse("version",
               "\"gemm\"; quantize the original bf16 or f16 checkpoint with AutoAWQ and "
               "\"version\": \"gemm\"",
               StatusCode::kUnsupported);
  }
  const char* group_field = awq.has("group_size") ? "group_size" : "q_group_size";
  quantization.group_size =
      static_cast<int32_t>(awq.integer(group_field, -1, 1 << 20).value_or(128));
  if (quantization.group_size == 0) {
    awq.refuse(group_field, "-1 (one group) or a divisor of every layer's input width");
  }
  quantization.zero_point = awq.boolean("zero_point").value_or(true);
  if (!quantization.zero_point) {
    awq.refuse("zero_point", "true; AutoAWQ's \"gemm\" version always stores zero points",
               StatusCode::kUnsupported);
  }
  quantization.modules_to_not_convert =
      awq.strings("modules_to_not_convert").value_or(std::vector<std::string>());
}

void read_quantization(FieldReader& fields, ModelConfig& config) {
  for (const char* field : {"compression_config", "quantization_config"}) {
    auto quantization = fields.object(field);
    if (!quantization) continue;
    const std::string method = method_of(*quantization);
    if (method == "awq") {
      read_awq_fields(*quantization, config.quantization);
      continue;
    }
    const std::string name = method.empty() ? "nothing that names a method" : printable(method);
    quantization->refuse("quant_method", kAcceptedQuantization + conversion_advice(method),
                         StatusCode::kUnsupported, method.empty() ? name : in_quotes(name));
  }
}

}  // namespace forerun
