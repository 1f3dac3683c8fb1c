// What a decoder will take of the host's memory, from the checkpoint's description alone.
#pragma once

#include <cstdint>

#include "checkpoint/checkpoint.h"
#include "kernels/precision.h"
#include "model/decoder_weights.h"

namespace forerun {

struct DecoderMemory {
  int64_t weight_bytes = 0;        // resident once every weight has been read
  int64_t kv_bytes_per_token = 0;  // K and V of all layers
  int64_t kv_block_bytes = 0;      // the same for a block of kKvBlockTokens
};

DecoderMemory estimate_decoder_memory(const Checkpoint& checkpoint, WeightOverride weights,
                                      Activation activation);

}  // namespace forerun
