// The metadata of a GGUF file: the shape of the model, its tokenizer, chat templates and defaults.
//
// All functions are pure.
#pragma once

#include <string>
#include <vector>

#include "checkpoint/checkpoint.h"
#include "checkpoint/gguf/gguf_writer.h"
#include "convert/output_format.h"
#include "forerun/status.h"

namespace forerun {

// Adds the metadata of the input's model, with linear layers in `format`. Copies the metadata of a
// GGUF input, except those about its own formats and parts. Adds a line to `notes` for each
// property that GGUF cannot express. Returns kUnsupported if the file cannot describe the model.
Status describe_in_gguf(const Checkpoint& input, const FileFormat& format, GgufWriter& writer,
                        std::vector<std::string>& notes);

// Returns the divisors of the RoPE frequencies, [head_dim / 2], which tensor rope_freqs.weight
// stores to express Llama 3's scaling. Empty if the model has no such scaling.
std::vector<float> rope_factors(const ModelConfig& config);

}  // namespace forerun
