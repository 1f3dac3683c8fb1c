// The weights of a decoder on the host, in the formats its kernels read.
//
// Plain formats are used where the checkpoint maps them; AWQ and requantized layers are repacked
// one tensor at a time, and the pages of each source are let go afterwards.
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

namespace forerun {

// What becomes of the linear layers and the head; embedding and norms stay as they are.
enum class WeightOverride : uint8_t { kAsStored, kInt8, kBf16, kF32 };

const char* weight_override_name(WeightOverride weights);

struct LayerWeights {
  std::vector<float> input_norm, post_attention_norm;  // [hidden]
  std::vector<float> q_norm, k_norm;                   // [head_dim], or empty
  LinearWeight q, k, v, o, gate, up, down;
  std::vector<float> q_bias, k_bias, v_bias, o_bias, gate_bias, up_bias, down_bias;  // or empty
};

struct DecoderWeights {
  EmbeddingTable embedding;
  std::vector<LayerWeights> layers;
  std::vector<float> final_norm;  // [hidden]
  // [live vocabulary][hidden]; all rows where the head is stored quantized.
  LinearWeight head;
  std::vector<std::unique_ptr<std::byte[]>> owned;  // converted tensors that the above look into
};

// `live_vocab`: rows of the head that are ever needed, at most vocab_size. `progress` gets the
// fraction done, in [0, 1], from the calling thread. The checkpoint must outlive the weights.
Result<DecoderWeights> load_decoder_weights(const Checkpoint& checkpoint, WeightOverride weights,
                                            int32_t live_vocab,
                                            const std::function<void(double)>& progress);

}  // namespace forerun
