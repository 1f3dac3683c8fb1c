#include "model/cuda/shard_layout.h"

#include <algorithm>

#include "kernels/linear/cuda/plan.h"

namespace forerun::cuda {
namespace {

// The inputs of every linear layer are a multiple of this. AWQ parts of group 128 always are.
constexpr int64_t kInputs = unit_inputs(LinearFormat::kBf16);
// Elements of a 16-byte vector; a row of activations must begin at a multiple of it.
constexpr int64_t kVector = 8;

int64_t round_up(int64_t value, int64_t unit) { return (value + unit - 1) / unit * unit; }

// Never returns 0: a GPU without a share of a layer adds zeros to the others' sums.
int64_t inputs(int64_t count) { return std::max(round_up(count, kInputs), kInputs); }

ShardRange times(ShardRange range, int64_t factor) {
  return {range.begin * factor, range.end * factor};
}

}  // namespace

int64_t ShardLayoutCuda::logits_stride() const { return round_up(num_tokens, kTileOutputs); }
int64_t ShardLayoutCuda::head_stride() const { return round_up(head_out.total, kTileOutputs); }

ShardLayoutCuda shard_layout_cuda(const ModelConfig& config, const DeviceShard& part,
                                  int64_t draft_rows) {
  const int64_t dim = config.head_dim;
  const int64_t group = config.num_heads / config.num_kv_heads;
  ShardLayoutCuda layout;
  layout.part = part;
  layout.num_kv_heads = static_cast<int32_t>(part.kv_heads.size());
  layout.num_heads = static_cast<int32_t>(layout.num_kv_heads * group);

  layout.q_out = {.from = times(part.heads, dim),
                  .lead = part.first_slot * dim,
                  .total = layout.num_heads * dim};
  layout.kv_out = Slice::of(times(part.kv_heads, dim));
  layout.k_offset = static_cast<int32_t>(round_up(layout.q_out.total, kTileOutputs));
  const auto kv_width = static_cast<int32_t>(round_up(layout.kv_out.total, kTileOutputs));
  layout.v_offset = layout.k_offset + kv_width;
  layout.qkv_width = layout.v_offset + kv_width;

  const int64_t first = part.first_slot * dim;
  layout.attended_offset = first / kVector * kVector;
  layout.o_in = {.from = times(part.heads, dim),
                 .lead = first % kVector,
                 .total = inputs(first % kVector + part.heads.size() * dim)};
  layout.attended_width = round_up(
      std::max(layout.num_heads * dim, layout.attended_offset + layout.o_in.total), kVector);

  layout.mlp_out = Slice::of(part.mlp);
  layout.mlp_in = {.from = part.mlp, .lead = 0, .total = inputs(part.mlp.size())};

  layout.num_tokens = part.vocab.size();
  layout.head_out = draft_rows > 0 ? Slice::of_all(draft_rows) : Slice::of(part.vocab);
  return layout;
}

}  // namespace forerun::cuda
