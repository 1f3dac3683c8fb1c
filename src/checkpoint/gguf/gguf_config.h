// The description of a decoder in a GGUF file's metadata.
//
// All functions are pure.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "checkpoint/gguf/gguf_file.h"
#include "checkpoint/model_config.h"
#include "forerun/status.h"

namespace forerun {

// The tensor with the divisors of the RoPE frequencies, f32 [head_dim / 2].
inline constexpr std::string_view kGgufRopeFactors = "rope_freqs.weight";

// Reads the config of general.architecture llama (which Mistral's files use, too), qwen2 or qwen3.
// Fails with the file, the key, what was found and what is accepted. Biases and the LM head are
// found among the tensors, since no key names them; only qwen3 has norms of Q and K.
Result<ModelConfig> read_gguf_config(const GgufFile& file);

// Returns whether general.architecture is eagle3: an EAGLE-3 head, as llama.cpp's converter writes
// it.
bool describes_eagle3(const GgufFile& file);

// Reads such a head's description. The head has its own embedding and LM head if they are among the
// tensors.
Result<ModelConfig> read_gguf_eagle3_config(const GgufFile& file);

// Reads general.sampling.*, to which newer converters copy generation_config.json. Absent keys are
// unset; unsupported ones, such as mirostat, are listed by name.
Result<GenerationDefaults> read_gguf_defaults(const GgufFile& file);

// Returns the key of a field of forerun/sampling_fields.h by its gguf_name:
// "general.sampling.temp".
std::string gguf_sampling_key(std::string_view gguf_name);
// The number of last tokens that the penalties look at; -1 means all, as in this engine.
inline constexpr const char* kGgufPenaltyLast = "general.sampling.penalty_last_n";

// Returns the rows per head if rows of Q and K are interleaved (RawTensor::interleaved_head); 0 for
// architectures with rows in order.
int64_t interleaved_head(const GgufFile& file, const ModelConfig& config);

// The architecture of a family's models in GGUF files; kUnsupported if there is none.
struct GgufArchitecture {
  std::string_view name;  // general.architecture
  bool interleaves_rows;  // rows of Q and K are interleaved as in RawTensor::interleaved_head
};
Result<GgufArchitecture> gguf_architecture(const ModelConfig& config);

}  // namespace forerun
