// What a decoder will take of the host's memory, from the checkpoint's description alone.
#pragma once

#include <vector>

#include "checkpoint/checkpoint.h"
#include "kernels/precision.h"
#include "model/decoder_weights.h"
#include "model/device_memory.h"
#include "model/layer_range.h"
#include "model/shard_plan.h"

namespace forerun {

// Of the whole model on one device.
MemoryNeed estimate_decoder_memory(const Checkpoint& checkpoint, WeightOverride weights,
                                   Activation activation);
// Of each device of a group that holds these layers, by rank, "device 0" and so on. The embedding,
// which all devices read where the checkpoint maps it, counts for the one that holds vocabulary
// row 0.
std::vector<MemoryNeed> estimate_group_memory(const Checkpoint& checkpoint, WeightOverride weights,
                                              Activation activation, const ShardPlan& plan,
                                              const LayerRange& layers);

}  // namespace forerun
