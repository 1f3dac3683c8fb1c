// The metadata of an EAGLE-3 head in a GGUF file, besides the description of its layer.
//
// All functions are pure.
#pragma once

#include "checkpoint/gguf/gguf_file.h"
#include "checkpoint/model_config.h"

namespace forerun {

// Fills config.eagle3, except own_embedding and own_head; needs the layer's description and
// vocab_size. Records failures in `fields`.
void read_gguf_eagle3(const GgufFile& file, GgufMetadataReader& fields, ModelConfig& config);

}  // namespace forerun
