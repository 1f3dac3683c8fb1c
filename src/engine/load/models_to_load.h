// What an engine is asked to load: which models, in which number formats, with which options.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "engine/load/device_spec.h"
#include "engine/load/opened_model.h"
#include "forerun/engine.h"
#include "forerun/status.h"
#include "kernels/precision.h"
#include "model/decoder_weights.h"
#include "step/types.h"

namespace forerun {

// Everything pointed to must outlive what is loaded.
struct ModelsToLoad {
  struct Model {
    const OpenedModel* opened = nullptr;
    WeightOverride weights = WeightOverride::kAsStored;
  };
  std::array<Model, kNumRoles> models;  // the draft's may be none
  Activation activation = Activation::kBf16;
  const EngineOptions* options = nullptr;  // context, KV memory, progress, hosts
  int32_t emulated_stages = 1;             // stages that the emulated target is cut into

  const Model& of(Role role) const { return models[static_cast<size_t>(role)]; }
};

// What `options` ask to load of the opened models; both must outlive the result. Fails on weight
// and activation types that the devices cannot compute with.
Result<ModelsToLoad> models_to_load(const EngineOptions& options, const Placement& placement,
                                    const OpenedModels& opened);

}  // namespace forerun
