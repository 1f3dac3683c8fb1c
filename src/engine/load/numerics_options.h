// The number formats of the models' computations: parses the activation and weight names in
// EngineOptions, and checks them against the devices.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "engine/load/device_spec.h"
#include "engine/load/opened_model.h"
#include "forerun/engine.h"
#include "forerun/status.h"
#include "kernels/precision.h"
#include "model/decoder_weights.h"

namespace forerun {

struct NumericsOptions {
  Activation activation = Activation::kBf16;
  WeightOverride weights = WeightOverride::kAsStored;  // the target's weights
  std::optional<WeightOverride> draft_weights;         // unset: choose_draft_weights()
};

// Return the values that EngineOptions::weights and draft_weights accept: "as_stored", the names of
// requantizable_formats(), then the overrides of the head. New block formats are included
// automatically.
std::vector<std::string> weight_names();
std::vector<std::string> draft_weight_names();
// Parses one of weight_names(). Fails on an unknown name; the message lists the accepted ones.
Result<WeightOverride> parse_weights(const std::string& name);
// Returns a list such as "as_stored, f32 and int8".
std::string list_of(const std::vector<std::string>& names);

// Fails on an unknown name; the message lists the accepted ones.
Result<NumericsOptions> parse_numerics(const EngineOptions& options);

// Returns whether rounding the LM head of a draft with `vocab_size` tokens to int4 saves time on a
// GPU: its shape must allow int4, and reading it must take a good part of a Step.
bool int4_head_pays(int32_t hidden_size, int32_t vocab_size);

// Chooses the draft's weight format from the draft's devices and its stored format, if the user
// leaves the choice to the engine.
WeightOverride choose_draft_weights(const OpenedModel& draft, const ModelPlacement& placement);

// Checks the weights of a model on processors: fails if the inputs of a layer are not a whole
// number of blocks of the format. `found` begins the message: "weights: found 'q4_k'".
Status check_inputs(const std::string& found, WeightOverride weights, const ModelConfig& config);

// Fails if the devices cannot compute in these formats; the message lists the accepted ones.
// `draft` may be null; if its weights are unset, they are chosen here.
Status check_numerics(const EngineOptions& options, const NumericsOptions& numerics,
                      const Placement& placement, const OpenedModel& target,
                      const OpenedModel* draft);

}  // namespace forerun
