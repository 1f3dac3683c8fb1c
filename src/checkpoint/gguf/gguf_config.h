// The description of a decoder in a GGUF file's metadata.
//
// Thread rules: pure functions.
#pragma once

#include <cstdint>

#include "checkpoint/gguf/gguf_file.h"
#include "checkpoint/model_config.h"
#include "forerun/status.h"

namespace forerun {

// general.architecture may be llama (Mistral's files say so, too), qwen2 or qwen3. Fails with the
// file, the key, what was found and what is accepted. Whether there are biases and a head of its
// own is taken from the tensors, since no key says it.
Result<ModelConfig> read_gguf_config(const GgufFile& file);

// general.sampling.*: what newer converters keep of generation_config.json. Absent keys are unset;
// those that nothing here applies, such as mirostat, are named.
Result<GenerationDefaults> read_gguf_defaults(const GgufFile& file);

// Rows of a head whose rows of Q and K lie interleaved (RawTensor::interleaved_head); 0 for
// architectures whose rows lie in order.
int64_t interleaved_head(const GgufFile& file, const ModelConfig& config);

}  // namespace forerun
