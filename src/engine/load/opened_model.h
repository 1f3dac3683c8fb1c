// Checkpoints with their tokenizers and sampling defaults.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "checkpoint/checkpoint.h"
#include "forerun/engine.h"
#include "forerun/status.h"
#include "text/tokenizer.h"

namespace forerun {

// A model before its weights are loaded. Sizes and compatibility are decided from it.
struct OpenedModel {
  Checkpoint checkpoint;
  std::shared_ptr<const Tokenizer> shared_tokenizer;  // a trained head shares its target's
  GenerationDefaults defaults;

  const Tokenizer& tokenizer() const { return *shared_tokenizer; }
  bool is_head() const { return checkpoint.config().eagle3.has_value(); }

  // Returns the number of token ids that may be fed and sampled: the smaller of the tokenizer's and
  // the embedding's.
  int32_t live_vocab() const;
  std::vector<int32_t> eos_token_ids() const;  // sorted, distinct
};

// Resolves `model` (a directory or org/name) and reads everything but the weights.
Result<OpenedModel> open_model(const std::string& model);

struct OpenedModels {
  OpenedModel target;
  std::optional<OpenedModel> draft;

  const OpenedModel* draft_or_null() const { return draft ? &*draft : nullptr; }
};

// Opens both models of the options. Fails if their tokenizers differ, or if the draft is a trained
// head of another model.
Result<OpenedModels> open_models(const EngineOptions& options);

// Returns SamplingParams with the checkpoint's own defaults applied. Greedy if the checkpoint has
// none, or if do_sample is false.
SamplingParams default_sampling(const GenerationDefaults& defaults);

}  // namespace forerun
