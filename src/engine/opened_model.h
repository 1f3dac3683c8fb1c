// A checkpoint with its tokenizer and sampling defaults.
#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <string>

#include "checkpoint/checkpoint.h"
#include "forerun/engine.h"
#include "forerun/status.h"
#include "text/tokenizer.h"

namespace forerun {

// Opened, not yet loaded: what sizes and compatibility are decided from.
struct OpenedModel {
  Checkpoint checkpoint;
  Tokenizer tokenizer;
  GenerationDefaults defaults;

  // Tokens that may be fed and sampled: neither the tokenizer nor the embedding has more.
  int32_t live_vocab() const;
  std::vector<int32_t> eos_token_ids() const;  // sorted, distinct
};

// Resolves `model` (a directory or org/name) and reads everything but the weights.
Result<OpenedModel> open_model(const std::string& model);

// The checkpoint's own sampling defaults over SamplingParams'. Greedy where it says nothing, or
// do_sample is false.
SamplingParams default_sampling(const GenerationDefaults& defaults);

}  // namespace forerun
