// The weights of a decoder on the host, in the formats of its kernels. Each device of a group has
// its own part of them.
//
// Weights in plain formats are used in place in the mapped checkpoint. Quantized layers, and bf16
// ones if the CPU has a dot instruction for bf16, are repacked one tensor at a time; the pages of
// each source are released afterwards.
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
#include "model/weight_override.h"

namespace forerun {

struct LayerWeights {
  std::vector<float> input_norm, post_attention_norm;  // [hidden]
  std::vector<float> q_norm, k_norm;                   // [head_dim], or empty
  // [hidden], in the first layer of an EAGLE-3 head, which has q, k and v with twice as many
  // inputs; else empty.
  std::vector<float> hidden_norm;
  // Rows of q are the device's query heads, rows of k and v its KV heads, rows of gate and up its
  // MLP columns. o and down have all rows; their inputs are the outputs of the device's q and gate.
  LinearWeight q, k, v, o, gate, up, down;
  // Biases, or empty. Those of o and down are whole on every device, because they are added to the
  // sum of all.
  std::vector<float> q_bias, k_bias, v_bias, o_bias, gate_bias, up_bias, down_bias;
};

struct DecoderWeights {
  // All rows, in place in the mapped checkpoint: the devices share the host. A tied head that is
  // packed without a change of values serves instead if the device has all of it. Only in a stage
  // that embeds.
  EmbeddingTable embedding;
  // Only in an EAGLE-3 head: turns the target's taps, side by side, into a feature.
  std::vector<float> tap_norms;      // [width of the taps], or empty
  LinearWeight tap_projection;       // [hidden][width of the taps]
  std::vector<LayerWeights> layers;  // layers of the stage, from 0
  std::vector<float> final_norm;     // [hidden]; like the head, only in a stage that has it
  // [the device's rows][hidden]
  LinearWeight head;
  std::vector<std::unique_ptr<std::byte[]>>
      owned;  // converted tensors that the weights above point into
};

// Loads the part of device `shard` of these layers, for inputs rounded according to `activation`
// (`weights` may be any but kInt4Head); reads no other part of the checkpoint. Weights that are
// used in place are views of the mapped rows and columns; int8 and repacked parts belong to the
// device. `progress` receives the fraction done, in [0, 1], on the calling thread. `checkpoint` and
// `target` must outlive the weights; `target` lends an EAGLE-3 head its embedding and LM head if
// the head has none of its own, and is otherwise unused.
Result<DecoderWeights> load_decoder_weights(const Checkpoint& checkpoint, WeightOverride weights,
                                            Activation activation, const DeviceShard& shard,
                                            const LayerRange& layers,
                                            const std::function<void(double)>& progress,
                                            const Checkpoint* target = nullptr);

}  // namespace forerun
