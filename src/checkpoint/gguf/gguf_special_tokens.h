// The tokens of a GGUF file that begin and end a text.
//
// All functions are pure.
#pragma once

#include "checkpoint/gguf/gguf_metadata.h"
#include "checkpoint/model_config.h"

namespace forerun {

// Sets bos_token_id and eos_token_ids, sorted: those in the file's metadata, and tokens with the
// names of usual end-of-turn tokens. Leaves out ids from config.vocab_size on.
void read_gguf_special_tokens(GgufMetadataReader& fields, ModelConfig& config);

}  // namespace forerun
