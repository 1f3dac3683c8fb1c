// What the metadata of a GGUF file says about an EAGLE-3 head, beside the description of its layer.
//
// Thread rules: pure functions.
#pragma once

#include "checkpoint/gguf/gguf_file.h"
#include "checkpoint/model_config.h"

namespace forerun {

// Fills config.eagle3, but for own_embedding and own_head; expects the layer's description and
// vocab_size. Failures are recorded in `fields`.
void read_gguf_eagle3(const GgufFile& file, GgufMetadataReader& fields, ModelConfig& config);

}  // namespace forerun
