// The weights of one GPU's part of a decoder, in the formats its kernels read: Q, K and V are one
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

// Q, K and V: a weight for each of runs_of_one_format(), in order. Empty where the part has none.
struct QkvWeightsCuda {
  struct Run {
    LinearWeightCuda weight;
    int64_t first_output = 0;  // index among the layer's outputs
  };
  std::vector<Run> runs;

  // The same for all runs.
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
  // f32 [hidden], of the feature; only in the first layer of an EAGLE-3 head, whose qkv has inputs
  // of twice the width.
  DeviceBuffer hidden_norm;
  // bf16 [outputs], or empty; o_bias is whole on every GPU, for the sum of all.
  DeviceBuffer qkv_bias, o_bias;
};

struct DecoderWeightsCuda {
  // embedding_rows() of all tokens, whole on every GPU; only if it embeds. An EAGLE-3 head may have
  // none of its own, and no LM head.
  DeviceBuffer embedding;
  EmbeddingTableCuda embedding_table;  // table of `embedding`
  // Only in an EAGLE-3 head: taps of the target, side by side, become a feature.
  DeviceBuffer tap_norms;                // f32 [width of the taps], or empty
  LinearWeightCuda tap_projection;       // [hidden][width of the taps]
  std::vector<LayerWeightsCuda> layers;  // layers of the stage, from 0
  DeviceBuffer final_norm;               // f32 [hidden]; like the head, only in a stage that has it
  LinearWeightCuda head;                 // [the part's rows][hidden]
};

struct DecoderWeightsOptionsCuda {
  LayerRange layers;
  WeightOverride weights = WeightOverride::kAsStored;  // as in DecoderCudaOptions
  LmHeadSource lm_head;                                // without a checkpoint: none is loaded
  // Only for an EAGLE-3 head without an embedding: the target, where its own is not on this GPU.
  const Checkpoint* target_embedding = nullptr;
};

// Loads a GPU's part of these layers onto the current device; touches nothing else of the
// checkpoint. Layers stay as they are stored where plan_fused() has a format for them, everything
// else becomes bf16, except where `options.weights` says otherwise. Layers of which the part has
// nothing stay empty, except that o and down then are zeros. `progress` gets the fraction done; it
// may be empty.
Result<DecoderWeightsCuda> load_decoder_weights_cuda(const Checkpoint& checkpoint,
                                                     const ShardLayoutCuda& layout,
                                                     const DecoderWeightsOptionsCuda& options,
                                                     const std::function<void(double)>& progress);

}  // namespace forerun::cuda
