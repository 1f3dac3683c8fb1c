// What the models compute with: EngineOptions' names of activations and weights, read and checked
// against the devices.
#pragma once

#include <cstdint>
#include <optional>

#include "engine/device_spec.h"
#include "engine/opened_model.h"
#include "forerun/engine.h"
#include "forerun/status.h"
#include "kernels/precision.h"
#include "model/decoder_weights.h"

namespace forerun {

struct NumericsOptions {
  Activation activation = Activation::kBf16;
  WeightOverride weights = WeightOverride::kAsStored;  // the target's
  std::optional<WeightOverride> draft_weights;         // unset: choose_draft_weights()
};

// Fails on a name that is none, with those that are.
Result<NumericsOptions> parse_numerics(const EngineOptions& options);

// Whether a draft's head of `vocab_size` tokens is worth rounding to int4 on a GPU: where it can
// be, and reading it takes a share of a Step.
bool int4_head_pays(int32_t hidden_size, int32_t vocab_size);

// The draft's weights where the user leaves them to the engine, by where it runs and how it is
// stored.
WeightOverride choose_draft_weights(const OpenedModel& draft, const ModelPlacement& placement);

// Whether the devices can compute with them; `draft` may be null, and its weights are chosen. Fails
// naming what they accept.
Status check_numerics(const EngineOptions& options, const NumericsOptions& numerics,
                      const Placement& placement, const OpenedModel& target,
                      const OpenedModel* draft);

}  // namespace forerun
