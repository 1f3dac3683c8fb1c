// Which layers each stage of a pipeline holds.
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

// As many as the options name, one way or the other; 0: they name none.
int32_t stages_of(const EngineOptions& options);

// Cuts a model into `stages`: as the user says, where `stage_layers` is not empty, else so that the
// fullest stage has the least weight. The head counts, an embedding where it takes memory of its
// own: on GPUs. kInvalidArgument, naming the checkpoint, where there are fewer layers than stages
// or the user's do not add up to the model's or are not as many as stages.
Result<std::vector<LayerRange>> plan_stages(const Checkpoint& checkpoint, WeightOverride weights,
                                            Activation activation, bool on_gpus, int32_t stages,
                                            const std::vector<int32_t>& stage_layers);

}  // namespace forerun
