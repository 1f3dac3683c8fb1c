// The weights of a decoder on a GPU, in the formats its kernels read: Q, K and V are one linear
// layer, gate and up another.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "checkpoint/checkpoint.h"
#include "device/cuda/cuda_memory.h"
#include "forerun/status.h"
#include "kernels/linear/linear_cuda.h"

namespace forerun::cuda {

struct LayerWeightsCuda {
  LinearWeightCuda qkv, o, gate_up, down;
  DeviceBuffer input_norm, post_attention_norm;  // f32 [hidden]
  DeviceBuffer q_norm, k_norm;                   // f32 [head_dim], or empty
  DeviceBuffer qkv_bias, o_bias, down_bias;      // bf16 [outputs], or empty
};

// Where K and V begin among the outputs of the fused layer: each part starts at a whole tile.
struct QkvLayout {
  int32_t k_offset = 0;
  int32_t v_offset = 0;
  int32_t width = 0;
};
QkvLayout qkv_layout(const ModelConfig& config);

struct DecoderWeightsCuda {
  DeviceBuffer embedding;  // bf16 [vocab][hidden]
  std::vector<LayerWeightsCuda> layers;
  DeviceBuffer final_norm;  // f32 [hidden]
  LinearWeightCuda head;    // [live vocabulary][hidden]
};

// Onto the current device. AWQ layers of group 128 stay int4, everything else becomes bf16.
// `live_vocab`: rows of the head that are ever needed. `progress` gets the fraction done.
Result<DecoderWeightsCuda> load_decoder_weights_cuda(const Checkpoint& checkpoint,
                                                     int32_t live_vocab,
                                                     const std::function<void(double)>& progress);

}  // namespace forerun::cuda
