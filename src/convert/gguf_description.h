// What a GGUF file says besides its tensors: the shape of the model, its tokenizer, chat templates
// and defaults.
//
// Thread rules: pure functions.
#pragma once

#include <string>
#include <vector>

#include "checkpoint/checkpoint.h"
#include "checkpoint/gguf/gguf_writer.h"
#include "convert/output_format.h"
#include "forerun/status.h"

namespace forerun {

// Adds the metadata of a file with the input's model whose linear layers have `format`. Metadata of
// a GGUF input are copied, but for those that describe its own formats and parts. Adds a line to
// `notes` for what cannot be said. kUnsupported where the file could not describe the model.
Status describe_in_gguf(const Checkpoint& input, const FileFormat& format, GgufWriter& writer,
                        std::vector<std::string>& notes);

// The divisors of the rope frequencies, [head_dim / 2], as tensor rope_freqs.weight stores them to
// express Llama 3's scaling. Empty if the model has no such scaling.
std::vector<float> rope_factors(const ModelConfig& config);

}  // namespace forerun
