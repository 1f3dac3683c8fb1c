// Fields of an architecture ("llama.logit_scale") that change what a model computes, beside those
// that gguf_config.cc reads. One table says of every field that llama.cpp knows whether it is read,
// never changes a decoder of these families, or must have the value that changes nothing.
//
// Thread rules: pure functions.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "checkpoint/gguf/gguf_file.h"
#include "checkpoint/gguf/gguf_metadata.h"
#include "checkpoint/model_config.h"

namespace forerun {

// Records a failure where a field has a value under which the model computes something else.
// `prefix` is the architecture's, "llama."; `config` has its shape and rope scaling.
void check_gguf_fields(GgufMetadataReader& fields, std::string_view prefix,
                       const ModelConfig& config);

// What a user should know of the file's fields, a phrase each: those that neither this table nor
// llama.cpp knows, and a number of tokens that is not the list's.
std::vector<std::string> unread_gguf_fields(const GgufFile& file);

}  // namespace forerun
