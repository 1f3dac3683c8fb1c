// The weights of a decoder on the host, in the formats its kernels read; of one device of a group,
// its part of each.
//
// Plain formats are used where the checkpoint maps them; AWQ and requantized layers, and bf16 where
// the processor has a dot instruction for it, are repacked one tensor at a time, and the pages of
// each source are let go afterwards.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "checkpoint/checkpoint.h"
#include "forerun/status.h"
#include "kernels/embedding/embedding.h"
#include "kernels/linear/linear.h"
#include "model/layer_range.h"
#include "model/shard_plan.h"

namespace forerun {

// What becomes of the linear layers and the head; embedding and norms stay as they are.
enum class WeightOverride : uint8_t {
  kAsStored,
  kInt8,
  kBf16,
  kF32,
  kInt8Head,  // the head alone, if it is stored as floats
  kInt4Head,  // likewise, on GPUs: for drafts
};

const char* weight_override_name(WeightOverride weights);
// What becomes of the linear layers alone.
constexpr WeightOverride layers_override(WeightOverride weights) {
  return weights == WeightOverride::kInt8Head || weights == WeightOverride::kInt4Head
             ? WeightOverride::kAsStored
             : weights;
}
// And of the head, on processors.
constexpr WeightOverride head_override(WeightOverride weights) {
  return weights == WeightOverride::kInt8Head ? WeightOverride::kInt8 : weights;
}

struct LayerWeights {
  std::vector<float> input_norm, post_attention_norm;  // [hidden]
  std::vector<float> q_norm, k_norm;                   // [head_dim], or empty
  // Rows of q are the device's query heads, those of k and v its KV heads, those of gate and up its
  // MLP columns; o and down have all rows, and as inputs what the device's q and gate put out.
  LinearWeight q, k, v, o, gate, up, down;
  // Or empty. Those of o and down are whole on every device, for the sum of all.
  std::vector<float> q_bias, k_bias, v_bias, o_bias, gate_bias, up_bias, down_bias;
};

struct DecoderWeights {
  // All rows, where the checkpoint maps them: devices share the host. Of a stage that embeds.
  EmbeddingTable embedding;
  std::vector<LayerWeights> layers;  // of the stage, from 0
  std::vector<float> final_norm;     // [hidden]; as the head, of a stage that has it
  // [the device's rows][hidden]; of an AWQ checkpoint up to 7 more, since words hold 8.
  LinearWeight head;
  std::vector<std::unique_ptr<std::byte[]>> owned;  // converted tensors that the above look into
};

// The part of device `shard` of these layers, for inputs rounded as `activation` says (`weights`:
// all but kInt4Head); nothing else of the checkpoint is touched. Weights used in place are views of
// the mapped rows and columns; int8 and repacked parts are the device's own. `progress` gets the
// fraction done, in [0, 1], from the calling thread. The checkpoint must outlive the weights.
Result<DecoderWeights> load_decoder_weights(const Checkpoint& checkpoint, WeightOverride weights,
                                            Activation activation, const DeviceShard& shard,
                                            const LayerRange& layers,
                                            const std::function<void(double)>& progress);

}  // namespace forerun
