// The weights of one GPU's part of a decoder, in the formats its kernels read: Q, K and V are one
// linear layer, gate and up another.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "checkpoint/checkpoint.h"
#include "device/cuda/cuda_memory.h"
#include "forerun/status.h"
#include "kernels/linear/cuda/linear.h"
#include "model/cuda/shard_layout.h"
#include "model/decoder_weights.h"
#include "model/layer_range.h"

namespace forerun::cuda {

struct LayerWeightsCuda {
  LinearWeightCuda qkv, o, gate_up, down;
  DeviceBuffer input_norm, post_attention_norm;  // f32 [hidden]
  DeviceBuffer q_norm, k_norm;                   // f32 [head_dim], or empty
  // bf16 [outputs], or empty; o_bias is whole on every GPU, for the sum of all.
  DeviceBuffer qkv_bias, o_bias;
};

struct DecoderWeightsCuda {
  DeviceBuffer embedding;  // bf16 [vocab][hidden], whole on every GPU; only if it embeds
  std::vector<LayerWeightsCuda> layers;  // the stage's, from 0
  DeviceBuffer final_norm;               // f32 [hidden]; like the head, only in a stage that has it
  LinearWeightCuda head;                 // [the part's rows][hidden]
};

// Loads a GPU's part of these layers onto the current device; touches nothing else of the
// checkpoint. AWQ layers of group 128 stay int4, everything else becomes bf16, except the head
// where `weights` says otherwise (head_linear()). Layers of which the part has nothing stay empty,
// except that o and down then are zeros. `progress` gets the fraction done; it may be empty.
Result<DecoderWeightsCuda> load_decoder_weights_cuda(const Checkpoint& checkpoint,
                                                     const ShardLayoutCuda& layout,
                                                     const LayerRange& layers,
                                                     WeightOverride weights,
                                                     const std::function<void(double)>& progress);

}  // namespace forerun::cuda
