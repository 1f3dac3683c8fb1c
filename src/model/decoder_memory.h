// What a decoder will take of the host's memory, from the checkpoint's description alone.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "checkpoint/checkpoint.h"
#include "kernels/precision.h"
#include "model/decoder_weights.h"
#include "model/shard_plan.h"

namespace forerun {

struct DecoderMemory {
  int64_t weight_bytes = 0;        // resident once every weight has been read
  int64_t kv_bytes_per_token = 0;  // K and V of all layers
  int64_t kv_block_bytes = 0;      // the same for a block of kKvBlockTokens
};

// On one device.
DecoderMemory estimate_decoder_memory(const Checkpoint& checkpoint, WeightOverride weights,
                                      Activation activation);
// The part of one device of a group. The embedding, which all devices read where the checkpoint
// maps it, counts for the one that holds vocabulary row 0.
DecoderMemory estimate_device_memory(const Checkpoint& checkpoint, WeightOverride weights,
                                     Activation activation, const DeviceShard& shard);
std::vector<DecoderMemory> estimate_group_memory(const Checkpoint& checkpoint,
                                                 WeightOverride weights, Activation activation,
                                                 const ShardPlan& plan);
// Of all devices together, where they share the host's memory.
DecoderMemory total_memory(std::span<const DecoderMemory> devices);

}  // namespace forerun
