// A checkpoint with its tokenizer and sampling defaults, and the room its KV gets.
#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "checkpoint/checkpoint.h"
#include "forerun/engine.h"
#include "forerun/status.h"
#include "kernels/precision.h"
#include "model/decoder.h"
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

// How the memory for KV is divided.
struct KvPlan {
  int32_t max_context_tokens = 0;
  int64_t target_blocks = 0;
  int64_t draft_blocks = 0;  // 0 without a draft model
};

// A model and how many devices it is cut for.
struct ModelDevices {
  const Checkpoint* checkpoint = nullptr;
  int32_t degree = 1;
};

// Fails as make_shard_plan, and with the figures, of each device where there are several, where the
// context asked for does not fit the memory asked for, or that does not fit the machine.
Result<KvPlan> plan_kv(const EngineOptions& options, Activation activation,
                       const ModelDevices& target, const std::optional<ModelDevices>& draft);

}  // namespace forerun
