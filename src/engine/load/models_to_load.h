// The models that an engine loads, with their number formats and options.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "engine/load/device_spec.h"
#include "engine/load/opened_model.h"
#include "forerun/engine.h"
#include "forerun/status.h"
#include "kernels/precision.h"
#include "model/decoder_weights.h"
#include "step/types.h"

namespace forerun {

class ModelTransfer;  // engine/load/model_transfer.h

// All pointers must outlive the loaded models.
struct ModelsToLoad {
  struct Model {
    const OpenedModel* opened = nullptr;
    WeightOverride weights = WeightOverride::kAsStored;
  };
  std::array<Model, kNumRoles> models;  // the draft's entry may be empty
  Activation activation = Activation::kBf16;
  const EngineOptions* options = nullptr;  // context, KV memory, progress, hosts
  int32_t emulated_stages = 1;             // number of stages of the emulated target
  std::vector<int32_t> stage_layers;       // layers of each stage of the target; empty: balanced
  ModelTransfer* transfer = nullptr;       // null: every process has the target's files

  const Model& of(Role role) const { return models[static_cast<size_t>(role)]; }
};

// Returns the models to load for `options` from the opened models; both must outlive the result.
// Fails if the devices cannot compute with the weight or activation types.
Result<ModelsToLoad> models_to_load(const EngineOptions& options, const Placement& placement,
                                    const OpenedModels& opened);

}  // namespace forerun
