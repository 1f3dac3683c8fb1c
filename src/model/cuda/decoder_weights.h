// The weights of one GPU's part of a decoder, in the formats of its kernels: Q, K and V are one
// linear layer, gate and up another.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "checkpoint/checkpoint.h"
#include "device/cuda/cuda_memory.h"
#include "forerun/status.h"
#include "kernels/embedding/cuda/embedding.h"
#include "kernels/linear/cuda/linear.h"
#include "model/cuda/fused_linear.h"
#include "model/cuda/shard_layout.h"
#include "model/decoder_weights.h"
#include "model/layer_range.h"

namespace forerun::cuda {

// The weights of Q, K and V, one for each of runs_of_one_format(), in order. Empty if the part has
// no heads.
struct QkvWeightsCuda {
  struct Run {
    LinearWeightCuda weight;
    int64_t first_output = 0;  // index among the layer's outputs
  };
  std::vector<Run> runs;

  // Returns the input format, which is the same for all runs.
  ActivationFormat input_format() const {
    return linear_input_format(runs.empty() ? LinearFormat::kBf16
                                            : runs.front().weight.plan().format);
  }
};

struct LayerWeightsCuda {
  QkvWeightsCuda qkv;
  LinearWeightCuda o, gate_up, down;
  DeviceBuffer input_norm, post_attention_norm;  // f32 [hidden]
  DeviceBuffer q_norm, k_norm;                   // f32 [head_dim], or empty
  // f32 [hidden], the norm of the feature. Only in the first layer of an EAGLE-3 head; its qkv has
  // twice as many inputs.
  DeviceBuffer hidden_norm;
  // bf16 [outputs], or empty. o_bias is whole on every GPU, because it is added to the sum of all.
  DeviceBuffer qkv_bias, o_bias;
};

struct DecoderWeightsCuda {
  // The embedding_rows() of all tokens, whole on every GPU; only if the stage embeds. An EAGLE-3
  // head may have neither an embedding nor an LM head of its own.
  DeviceBuffer embedding;
  EmbeddingTableCuda embedding_table;  // table of `embedding`
  // Only in an EAGLE-3 head: turns the target's taps, side by side, into a feature.
  DeviceBuffer tap_norms;                // f32 [width of the taps], or empty
  LinearWeightCuda tap_projection;       // [hidden][width of the taps]
  std::vector<LayerWeightsCuda> layers;  // layers of the stage, from 0
  DeviceBuffer final_norm;               // f32 [hidden]; like the head, only in a stage that has it
  LinearWeightCuda head;                 // [the part's rows][hidden]
};

struct DecoderWeightsOptionsCuda {
  LayerRange layers;
  WeightOverride weights = WeightOverride::kAsStored;  // as in DecoderCudaOptions
  LmHeadSource lm_head;                                // nothing is loaded if it has no checkpoint
  // Only for an EAGLE-3 head without an embedding: the target, if its embedding is not on this GPU.
  const Checkpoint* target_embedding = nullptr;
};

// Loads a GPU's part of these layers onto the current device; reads no other part of the
// checkpoint. Layers stay as they are stored if plan_fused() has a format for them; all others
// become bf16, unless `options.weights` says otherwise. Layers without a share in the part stay
// empty, except that o and down are then zeros. `progress` receives the fraction done; it may be
// empty.
Result<DecoderWeightsCuda> load_decoder_weights_cuda(const Checkpoint& checkpoint,
                                                     const ShardLayoutCuda& layout,
                                                     const DecoderWeightsOptionsCuda& options,
                                                     const std::function<void(double)>& progress);

}  // namespace forerun::cuda
