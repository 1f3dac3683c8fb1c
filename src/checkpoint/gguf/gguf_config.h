// The description of a decoder in a GGUF file's metadata.
//
// Thread rules: pure functions.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "checkpoint/gguf/gguf_file.h"
#include "checkpoint/model_config.h"
#include "forerun/status.h"

namespace forerun {

// The tensor that holds what the frequencies of rope are divided by, f32 [head_dim / 2].
inline constexpr std::string_view kGgufRopeFactors = "rope_freqs.weight";

// general.architecture may be llama (Mistral's files say so, too), qwen2 or qwen3. Fails with the
// file, the key, what was found and what is accepted. Whether there are biases and a head of its
// own is taken from the tensors, since no key says it; the norms of Q and K are qwen3's.
Result<ModelConfig> read_gguf_config(const GgufFile& file);

// Whether general.architecture is eagle3: an EAGLE-3 head, as llama.cpp's converter writes it.
bool describes_eagle3(const GgufFile& file);

// Reads such a head's description. Its embedding and LM head are its own where they are among the
// tensors.
Result<ModelConfig> read_gguf_eagle3_config(const GgufFile& file);

// general.sampling.*: what newer converters keep of generation_config.json. Absent keys are unset;
// those that nothing here applies, such as mirostat, are named.
Result<GenerationDefaults> read_gguf_defaults(const GgufFile& file);

// The key of a field of forerun/sampling_fields.h by its gguf_name: "general.sampling.temp".
std::string gguf_sampling_key(std::string_view gguf_name);
// How many of the last tokens the penalties look at; -1: all, as they do here.
inline constexpr const char* kGgufPenaltyLast = "general.sampling.penalty_last_n";

// Rows of a head whose rows of Q and K lie interleaved (RawTensor::interleaved_head); 0 for
// architectures whose rows lie in order.
int64_t interleaved_head(const GgufFile& file, const ModelConfig& config);

// The architecture under which GGUF files hold the models of a family; kUnsupported where there is
// none.
struct GgufArchitecture {
  std::string_view name;  // general.architecture
  bool interleaves_rows;  // rows of Q and K are interleaved, as RawTensor::interleaved_head says
};
Result<GgufArchitecture> gguf_architecture(const ModelConfig& config);

}  // namespace forerun
