// Checks of an architecture's fields ("llama.logit_scale") that change what a model computes,
// besides those that gguf_config.cc reads. One table covers every field that llama.cpp knows: it is
// read elsewhere, never changes a decoder of these families, or must have its neutral value.
//
// All functions are pure.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "checkpoint/gguf/gguf_file.h"
#include "checkpoint/gguf/gguf_metadata.h"
#include "checkpoint/model_config.h"

namespace forerun {

// Records a failure if a field has a value that makes the model compute something else. `prefix` is
// the architecture's, "llama."; `config` has its shape and RoPE scaling.
void check_gguf_fields(GgufMetadataReader& fields, std::string_view prefix,
                       const ModelConfig& config);

// Returns warnings about the file's fields for the user, one phrase each: fields that neither this
// table nor llama.cpp knows, and a number of tokens that differs from the list's.
std::vector<std::string> unread_gguf_fields(const GgufFile& file);

}  // namespace forerun
