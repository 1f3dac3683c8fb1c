// Divides a model's layers among the stages of a pipeline.
#pragma once

#include <cstdint>
#include <vector>

#include "checkpoint/checkpoint.h"
#include "forerun/engine.h"
#include "forerun/status.h"
#include "kernels/precision.h"
#include "model/decoder_weights.h"
#include "model/layer_range.h"

namespace forerun {

// Returns the number of stages that the options ask for, by any of their fields; 0: not given.
int32_t stages_of(const EngineOptions& options);

// Divides a model into `stages` stages: by `stage_layers`, the user's numbers of layers, if it is
// not empty; otherwise so that the largest stage has the fewest bytes of weights. The LM head
// counts, and, on GPUs, an embedding that takes memory of its own. Fails with kInvalidArgument,
// naming the checkpoint, if there are fewer layers than stages, or `stage_layers` has a different
// number of stages or layers than the model.
Result<std::vector<LayerRange>> plan_stages(const Checkpoint& checkpoint, WeightOverride weights,
                                            Activation activation, bool on_gpus, int32_t stages,
                                            const std::vector<int32_t>& stage_layers);

}  // namespace forerun
