// The table of layouts, and the lookup of the scheme that each layer has.
#include <algorithm>
#include <string>

#include "base/printable.h"
#include "checkpoint/layouts/name_pattern.h"
#include "checkpoint/layouts/weight_layout.h"

namespace forerun {
namespace {

constexpr const WeightLayout* kLayouts[] = {
    &kAwqGemm, &kAwqGemv, &kAwqGemvFast, &kGptq, &kPackedIntegers, &kBytes, &kScaledFloats,
};

// compressed-tensors' class name of every linear layer.
constexpr std::string_view kLinearClass = "Linear";

}  // namespace

std::span<const WeightLayout* const> weight_layouts() { return kLayouts; }

std::string layout_name(const LayerScheme& scheme) {
  const std::string label(scheme.layout->label);
  return scheme.layout->quants == nullptr ? label : label + "-int" + std::to_string(scheme.bits);
}

const LayerScheme* scheme_of(const QuantizationConfig& quantization, std::string_view module) {
  if (!quantization.names_in_full) {
    for (const LayerScheme& scheme : quantization.schemes) {
      if (scheme.targets.empty()) return &scheme;
      for (const std::string& target : scheme.targets) {
        if (matches_layer(target, module, false)) return &scheme;
      }
    }
    return nullptr;
  }
  if (is_left_out(quantization, module)) return nullptr;
  // A layer's own name takes precedence over patterns, and patterns over the class.
  for (const bool wants_pattern : {false, true}) {
    for (const LayerScheme& scheme : quantization.schemes) {
      for (const std::string& target : scheme.targets) {
        if (target.starts_with("re:") == wants_pattern && matches_layer(target, module, true)) {
          return &scheme;
        }
      }
    }
  }
  for (const LayerScheme& scheme : quantization.schemes) {
    for (const std::string& target : scheme.targets) {
      if (target == kLinearClass) return &scheme;
    }
  }
  return nullptr;
}

bool is_left_out(const QuantizationConfig& quantization, std::string_view module) {
  for (const std::string& pattern : quantization.left_out) {
    if (quantization.names_in_full && pattern == kLinearClass) return true;
    if (matches_layer(pattern, module, quantization.names_in_full)) return true;
  }
  return false;
}

bool must_be_plain(const QuantizationConfig& quantization, std::string_view module) {
  if (quantization.names_in_full) return is_left_out(quantization, module);
  return std::any_of(
      quantization.left_out.begin(), quantization.left_out.end(),
      [module](const std::string& pattern) { return matches_words(pattern, module); });
}

void read_left_out(FieldReader& fields, std::string_view field, QuantizationConfig& quantization) {
  for (const std::string& pattern : fields.strings(field).value_or(std::vector<std::string>())) {
    if (!is_readable_pattern(pattern)) {
      fields.refuse(field, "names of layers and simple patterns; " + std::string(kTakeTheOriginal),
                    StatusCode::kUnsupported, in_quotes(pattern));
    }
    quantization.left_out.push_back(pattern);
  }
}

std::string list_text(const std::vector<int64_t>& values) {
  std::string text = "[";
  for (const int64_t value : values) {
    text += (text.size() == 1 ? "" : ", ") + std::to_string(value);
  }
  return text + "]";
}

float float_at(const RawTensor& tensor, int64_t index) {
  if (tensor.dtype == DType::kF32) return element_at<float>(tensor, index);
  if (tensor.dtype == DType::kBf16) return to_float(element_at<bf16>(tensor, index));
  return to_float(element_at<f16>(tensor, index));
}

}  // namespace forerun
