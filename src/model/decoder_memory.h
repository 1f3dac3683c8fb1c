// The host memory that a decoder will take: from the checkpoint's description, and where that
// leaves a kernel format open (model/parts_packing.h), from zeros and scales.
#pragma once

#include <vector>

#include "checkpoint/checkpoint.h"
#include "kernels/precision.h"
#include "model/decoder_weights.h"
#include "model/device_memory.h"
#include "model/layer_range.h"
#include "model/shard_plan.h"

namespace forerun {

// The need of the whole model on one device.
MemoryNeed estimate_decoder_memory(const Checkpoint& checkpoint, WeightOverride weights,
                                   Activation activation);
// The needs of each device of a group that holds these layers, by rank, named "device 0" and so on.
// All devices read the embedding where the checkpoint maps it; it counts for the one that holds
// vocabulary row 0. `target`: the model whose LM head a trained head without one of its own copies.
std::vector<MemoryNeed> estimate_group_memory(const Checkpoint& checkpoint, WeightOverride weights,
                                              Activation activation, const ShardPlan& plan,
                                              const LayerRange& layers,
                                              const Checkpoint* target = nullptr);

}  // namespace forerun
