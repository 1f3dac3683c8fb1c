// From a model's rope parameters to rotation frequencies: plain, linear, llama3 and YaRN scaling,
// as Hugging Face's rotary embeddings define them.
#pragma once

#include "checkpoint/model_config.h"
#include "kernels/rope/rope.h"

namespace forerun {

RopeFrequencies rope_frequencies(const ModelConfig& config);

}  // namespace forerun
