// Reads the layers' attention windows. Mistral: all layers have one, unless sliding_window is null;
// absent means its class's 4096. Qwen2 and Qwen3: none unless use_sliding_window is set, then the
// layers from max_window_layers on, or those in layer_types.
#include <string>

#include "base/printable.h"
#include "checkpoint/config_sections.h"
#include "checkpoint/other_families.h"

namespace forerun {
namespace {

constexpr int64_t kMaxWindow = int64_t{1} << 30;

int32_t read_window(FieldReader& fields) {
  if (fields.names("sliding_window") && !fields.has("sliding_window")) return 0;  // null
  return static_cast<int32_t>(fields.integer("sliding_window", 1, kMaxWindow).value_or(4096));
}

}  // namespace

void read_sliding_window(FieldReader& fields, ModelConfig& config) {
  const size_t num_layers = static_cast<size_t>(config.num_layers);
  config.sliding_window.assign(num_layers, 0);
  const bool is_qwen = config.model_type == "qwen2" || config.model_type == "qwen3";
  int32_t window = 0;
  size_t first_sliding_layer = 0;
  if (config.model_type == "mistral") {
    window = read_window(fields);
  } else if (is_qwen) {
    first_sliding_layer =
        static_cast<size_t>(fields.integer("max_window_layers", 0, 1 << 20).value_or(28));
    if (fields.boolean("use_sliding_window").value_or(false)) window = read_window(fields);
  }
  for (size_t layer = first_sliding_layer; layer < num_layers; ++layer) {
    config.sliding_window[layer] = window;
  }

  const auto layer_types = fields.strings("layer_types");
  if (!layer_types) return;
  if (layer_types->size() != num_layers) {
    fields.refuse("layer_types", "one entry a layer (" + std::to_string(num_layers) + ")");
    return;
  }
  for (size_t layer = 0; layer < num_layers; ++layer) {
    const std::string& type = (*layer_types)[layer];
    const std::string found = in_quotes(type) + " for layer " + std::to_string(layer);
    if (type != "full_attention" && type != "sliding_attention") {
      fields.refuse("layer_types",
                    accepted_or_other_engines("\"full_attention\" or \"sliding_attention\""),
                    StatusCode::kUnsupported, found);
    } else if (type == "sliding_attention" && window == 0) {
      fields.refuse("layer_types", "\"full_attention\", since the file sets no sliding window",
                    StatusCode::kInvalidArgument, found);
    } else if (!is_qwen && (type == "sliding_attention") != (window != 0)) {
      // transformers' Mistral has one mask for all layers and ignores this field.
      fields.refuse(
          "layer_types",
          accepted_or_other_engines("\"sliding_attention\" throughout, as sliding_window says"),
          StatusCode::kUnsupported, found);
    }
    config.sliding_window[layer] = type == "sliding_attention" ? window : 0;
  }
}

}  // namespace forerun
