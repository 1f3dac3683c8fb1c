#include "checkpoint/gguf/gguf_eagle3.h"

#include <algorithm>
#include <string>
#include <utility>

#include "checkpoint/config_sections.h"

namespace forerun {
namespace {

constexpr const char* kTargetLayers = "eagle3.target_layers";

// Reads the number of layers before each tap.
void read_taps(GgufMetadataReader& fields, Eagle3Config& head) {
  const auto layers = fields.integers(kTargetLayers, 0, kMaxLayers);
  if (!fields.ok()) return;
  if (!layers || layers->empty() || layers->size() > kMaxTaps) {
    fields.refuse(kTargetLayers, "1 to " + std::to_string(kMaxTaps) + " layers of the target",
                  StatusCode::kInvalidArgument,
                  layers ? std::to_string(layers->size()) + " layers" : "nothing");
    return;
  }
  for (const int64_t layer : *layers) head.tap_layers.push_back(static_cast<int32_t>(layer));
}

}  // namespace

void read_gguf_eagle3(const GgufFile& file, GgufMetadataReader& fields, ModelConfig& config) {
  Eagle3Config head;
  read_taps(fields, head);
  head.target_hidden_size =
      static_cast<int32_t>(fields.required_integer("eagle3.target_hidden_size", 1, kMaxWidth));
  head.norm_before_residual = fields.boolean("eagle3.norm_before_residual").value_or(false);
  if (fields.boolean("eagle3.norm_before_fc").value_or(false)) {
    head.norm_of_taps = Eagle3Config::NormOfTaps::kTogether;
  }
  const GgufFileTensor* const tokens = file.find("d2t");
  head.draft_vocab_size = config.vocab_size;
  if (tokens != nullptr && tokens->shape.size() == 1) {
    head.draft_vocab_size =
        static_cast<int32_t>(std::min<int64_t>(tokens->shape[0], config.vocab_size));
  }
  config.tied_embeddings = false;
  config.eagle3 = std::move(head);
}

}  // namespace forerun
