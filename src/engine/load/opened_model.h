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

// A model whose weights are not loaded yet: sizes and compatibility are decided from it.
struct OpenedModel {
  Checkpoint checkpoint;
  std::shared_ptr<const Tokenizer> shared_tokenizer;  // a trained head has its target's
  GenerationDefaults defaults;

  const Tokenizer& tokenizer() const { return *shared_tokenizer; }
  bool is_head() const { return checkpoint.config().eagle3.has_value(); }

  // Token ids that may be fed and sampled: the smaller of the tokenizer's and the embedding's
  // number.
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

// Opens both models of the options. Fails where their tokenizers differ, or where the draft is a
// trained head of another model.
Result<OpenedModels> open_models(const EngineOptions& options);

// SamplingParams with the checkpoint's own defaults applied. Greedy where the checkpoint has none,
// or do_sample is false.
SamplingParams default_sampling(const GenerationDefaults& defaults);

}  // namespace forerun
