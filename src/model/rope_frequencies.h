// Rotation frequencies from a model's RoPE parameters: plain, linear, llama3 and YaRN scaling, as
// defined by Hugging Face's rotary embeddings.
#pragma once

#include "checkpoint/model_config.h"
#include "kernels/rope/rope.h"

namespace forerun {

RopeFrequencies rope_frequencies(const ModelConfig& config);

}  // namespace forerun
