// Which tokens begin and end a text, as a GGUF file says.
//
// Thread rules: pure functions.
#pragma once

#include "checkpoint/gguf/gguf_metadata.h"
#include "checkpoint/model_config.h"

namespace forerun {

// Sets bos_token_id and eos_token_ids, sorted: those that the file names, and tokens by whose names
// models end their turns. Ids from config.vocab_size on are left out.
void read_gguf_special_tokens(GgufMetadataReader& fields, ModelConfig& config);

}  // namespace forerun
