// Estimates of the host memory of a decoder from the checkpoint's description. If that leaves a
// kernel format open (model/parts_packing.h), the estimates also read zeros and scales.
#pragma once

#include <vector>

#include "checkpoint/checkpoint.h"
#include "kernels/precision.h"
#include "model/decoder_weights.h"
#include "model/device_memory.h"
#include "model/layer_range.h"
#include "model/shard_plan.h"

namespace forerun {

// Returns the need of the whole model on one device.
MemoryNeed estimate_decoder_memory(const Checkpoint& checkpoint, WeightOverride weights,
                                   Activation activation);
// Returns the needs of each device of a group that holds these layers, by rank, named "device 0"
// and so on. All devices read the mapped embedding; it counts for the one that holds vocabulary row
// 0. `target` is the model that lends its LM head to a trained head without one.
std::vector<MemoryNeed> estimate_group_memory(const Checkpoint& checkpoint, WeightOverride weights,
                                              Activation activation, const ShardPlan& plan,
                                              const LayerRange& layers,
                                              const Checkpoint* target = nullptr);

}  // namespace forerun
