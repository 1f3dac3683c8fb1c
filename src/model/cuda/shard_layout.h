// The layout of one GPU's part of a decoder in its buffers and weights. This is host arithmetic
// only, so tests need no GPU.
//
// The parts of different GPUs differ in size. They are padded with zeros only as far as the kernels
// need: outputs of a fused part start at a whole tile, inputs are a multiple of 32, and a GPU
// without a share of o or down has 32 zero inputs.
#pragma once

#include <cstdint>

#include "checkpoint/model_config.h"
#include "model/shard_plan.h"

namespace forerun::cuda {

// A range of a weight's outputs or inputs on the GPU: the checkpoint's range `from`, with zeros
// around it.
struct Slice {
  ShardRange from;
  int64_t lead = 0;   // zeros in front of it
  int64_t total = 0;  // including the zeros around it

  // Returns the range without zeros around it.
  static Slice of(ShardRange range) { return {.from = range, .lead = 0, .total = range.size()}; }
  static Slice of_all(int64_t count) { return of({0, count}); }
};

struct ShardLayoutCuda {
  DeviceShard part;
  // Query heads that the part's KV heads serve; part.heads.size() of them, from part.first_slot on,
  // are the part's own.
  int32_t num_heads = 0;
  int32_t num_kv_heads = 0;
  // Q, K and V are one linear layer. These are the first outputs of K and V, and the number of
  // outputs.
  int32_t k_offset = 0;
  int32_t v_offset = 0;
  int32_t qkv_width = 0;
  Slice q_out, kv_out;  // rows of q; of k and v
  // Inputs of o: they begin at element `attended_offset` of a row of attention's output, which has
  // `attended_width` elements.
  Slice o_in;
  int64_t attended_offset = 0;
  int64_t attended_width = 0;
  Slice mlp_out, mlp_in;  // rows of gate and up; inputs of down, with the width in the buffer
  // Tokens with logits in this part, and rows of the LM head. Only an EAGLE-3 head with a reduced
  // vocabulary has fewer rows than tokens; a kernel then spreads their logits over the tokens.
  int64_t num_tokens = 0;
  Slice head_out;

  bool has_heads() const { return num_heads > 0; }
  bool has_mlp() const { return mlp_out.total > 0; }
  bool has_head() const { return num_tokens > 0; }
  bool spreads_logits() const { return head_out.total != num_tokens; }
  // Row strides, in floats, of the logits and of the LM head's output.
  int64_t logits_stride() const;
  int64_t head_stride() const;
};

// `draft_rows` is the number of rows of an LM head with its own order of tokens
// (Checkpoint::draft_tokens()), all of them on one GPU; 0 if the rows are the part's tokens.
ShardLayoutCuda shard_layout_cuda(const ModelConfig& config, const DeviceShard& part,
                                  int64_t draft_rows = 0);

}  // namespace forerun::cuda
