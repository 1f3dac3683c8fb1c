// The number formats that the models compute with: parses EngineOptions' names of activations and
// weights, and checks them against the devices.
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

// What EngineOptions::weights and draft_weights accept: "as_stored", the names of
// requantizable_formats(), then the overrides of the head. A new block format appears by itself.
std::vector<std::string> weight_names();
std::vector<std::string> draft_weight_names();
// One of weight_names(). Fails on an unknown name; the message lists those that are accepted.
Result<WeightOverride> parse_weights(const std::string& name);
// "as_stored, f32 and int8".
std::string list_of(const std::vector<std::string>& names);

// Fails on an unknown name; the message lists those that are accepted.
Result<NumericsOptions> parse_numerics(const EngineOptions& options);

// Whether rounding the LM head of a draft with `vocab_size` tokens to int4 pays on a GPU: its shape
// must allow int4, and it must be large enough that reading it takes a good part of a Step.
bool int4_head_pays(int32_t hidden_size, int32_t vocab_size);

// The draft's weight format where the user leaves it to the engine: it follows from the draft's
// devices and its stored format.
WeightOverride choose_draft_weights(const OpenedModel& draft, const ModelPlacement& placement);

// Fails where the inputs of a layer are no whole number of blocks of the format, on processors.
// `found` begins the message: "weights: found 'q4_k'".
Status check_inputs(const std::string& found, WeightOverride weights, const ModelConfig& config);

// Fails where the devices cannot compute in these formats, and names those that they accept.
// `draft` may be null; where its weights are unset, they are chosen.
Status check_numerics(const EngineOptions& options, const NumericsOptions& numerics,
                      const Placement& placement, const OpenedModel& target,
                      const OpenedModel* draft);

}  // namespace forerun
