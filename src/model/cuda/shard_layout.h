// How one GPU's part of a decoder lies in its buffers and weights: host arithmetic only, so that it
// is tested where there is no GPU.
//
// Parts differ in size from GPU to GPU; nothing is padded but to what the kernels take: outputs of
// a fused part start at a whole tile, inputs are a multiple of 32, and 32 zeros where a GPU has
// none of o or down. What is padded is zero.
#pragma once

#include <cstdint>

#include "checkpoint/model_config.h"
#include "model/shard_plan.h"

namespace forerun::cuda {

// A stretch of a weight's outputs or inputs as it lies on the GPU: `from` of the checkpoint's,
// zeros around it.
struct Slice {
  ShardRange from;
  int64_t lead = 0;   // zeros in front
  int64_t total = 0;  // with all zeros

  // The range and nothing around it.
  static Slice of(ShardRange range) { return {.from = range, .lead = 0, .total = range.size()}; }
  static Slice of_all(int64_t count) { return of({0, count}); }
};

struct ShardLayoutCuda {
  DeviceShard part;
  // Query heads that the part's KV heads serve, of which part.heads.size() are its own, from
  // part.first_slot on.
  int32_t num_heads = 0;
  int32_t num_kv_heads = 0;
  // Q, K and V are one linear layer: where K and V begin among its outputs, and their sum.
  int32_t k_offset = 0;
  int32_t v_offset = 0;
  int32_t qkv_width = 0;
  Slice q_out, kv_out;  // rows of q; of k and v
  // Inputs of o: from element `attended_offset` of a row of attention's output, which has
  // `attended_width`.
  Slice o_in;
  int64_t attended_offset = 0;
  int64_t attended_width = 0;
  Slice mlp_out, mlp_in;  // rows of gate and up; inputs of down, and their width in its buffer
  // Rows of the head; `head_out.total` with the rest of a word, where the head is quantized.
  int64_t num_tokens = 0;
  Slice head_out;

  bool has_heads() const { return num_heads > 0; }
  bool has_mlp() const { return mlp_out.total > 0; }
  bool has_head() const { return num_tokens > 0; }
  // Floats between two rows of its logits.
  int64_t logits_stride() const;
};

ShardLayoutCuda shard_layout_cuda(const ModelConfig& config, const DeviceShard& part);

}  // namespace forerun::cuda
