// A pass as a GPU's stream sees it: which kernels, in which order. Captured once a PassKeyCuda.
#include "device/cuda/cuda_error.h"
#include "kernels/embedding/embedding_cuda.h"
#include "kernels/rms_norm/rms_norm_cuda.h"
#include "model/cuda/shard_cuda.h"

namespace forerun::cuda {

Status ShardCuda::submit_layer(size_t layer_idx, const PassKeyCuda& key) {
  const int32_t rows = key.rows;
  const LayerWeightsCuda& layer = weights_.layers[layer_idx];
  const int64_t hidden = config_.hidden_size;
  const int64_t q_width = int64_t{config_.num_heads} * config_.head_dim;
  const auto* const step = reinterpret_cast<const AttentionStepCuda*>(step_.data());
  const auto bf16 = [](const DeviceBuffer& buffer) { return buffer.as<__nv_bfloat16>(); };
  const cudaStream_t stream = stream_.get();

  const auto normalize = [&](const DeviceBuffer& weight) {
    return rms_norm_cuda({.input = bf16(hidden_),
                          .weight = weight.as<float>(),
                          .output = bf16(normalized_),
                          .dim = hidden,
                          .rows = rows,
                          .eps = config_.rms_norm_eps},
                         stream);
  };
  // x += W * input
  const auto add_linear = [&](const LinearWeightCuda& weight, const DeviceBuffer& input,
                              int64_t width, const DeviceBuffer& bias) {
    return linear_cuda(weight,
                       {.input = bf16(input),
                        .input_stride = width,
                        .output = bf16(hidden_),
                        .output_stride = hidden,
                        .rows = rows,
                        .bias = bias.data() == nullptr ? nullptr : bf16(bias),
                        .residual = bf16(hidden_)},
                       stream);
  };

  FORERUN_RETURN_IF_ERROR(normalize(layer.input_norm));
  FORERUN_RETURN_IF_ERROR(
      linear_cuda(layer.qkv,
                  {.input = bf16(normalized_),
                   .input_stride = hidden,
                   .output = bf16(qkv_out_),
                   .output_stride = qkv_.width,
                   .rows = rows,
                   .bias = layer.qkv_bias.data() == nullptr ? nullptr : bf16(layer.qkv_bias)},
                  stream));
  const PagedKvCuda kv = layer_kv(layer_idx);
  if (key.mode != AttentionMode::kFused) {
    FORERUN_RETURN_IF_ERROR(rope_append_cuda({.step = step,
                                              .qkv = bf16(qkv_out_),
                                              .qkv_stride = qkv_.width,
                                              .k_offset = qkv_.k_offset,
                                              .v_offset = qkv_.v_offset,
                                              .q = bf16(q_),
                                              .num_heads = config_.num_heads,
                                              .rows = rows,
                                              .kv = kv,
                                              .q_norm = layer.q_norm.as<float>(),
                                              .k_norm = layer.k_norm.as<float>(),
                                              .eps = config_.rms_norm_eps},
                                             stream));
  }
  const int64_t flags = int64_t{kMostPassRows} * shape_.kv_parts;
  FORERUN_RETURN_IF_ERROR(attention_cuda(
      {.step = step,
       .q = bf16(q_),
       .qkv = bf16(qkv_out_),
       .qkv_stride = qkv_.width,
       .k_offset = qkv_.k_offset,
       .v_offset = qkv_.v_offset,
       .attended = bf16(attended_),
       .attended_stride = q_width,
       .num_heads = config_.num_heads,
       .kv = kv,
       .window = config_.sliding_window[layer_idx],
       .partials = partials_.as<float>(),
       .arrivals = arrivals_.as<uint32_t>() + static_cast<int64_t>(layer_idx % 2) * flags,
       .to_clear = arrivals_.as<uint32_t>() + static_cast<int64_t>((layer_idx + 1) % 2) * flags,
       .failed = failed_.as<uint32_t>(),
       .early = layer_idx > 0,
       .mode = key.mode,
       .long_contexts = key.long_contexts},
      stream));
  FORERUN_RETURN_IF_ERROR(add_linear(layer.o, attended_, q_width, layer.o_bias));
  FORERUN_RETURN_IF_ERROR(normalize(layer.post_attention_norm));
  FORERUN_RETURN_IF_ERROR(linear_cuda(layer.gate_up,
                                      {.input = bf16(normalized_),
                                       .input_stride = hidden,
                                       .output = bf16(mlp_),
                                       .output_stride = config_.intermediate_size,
                                       .rows = rows,
                                       .gated = true},
                                      stream));
  return add_linear(layer.down, mlp_, config_.intermediate_size, layer.down_bias);
}

Status ShardCuda::submit(const PassKeyCuda& key) {
  const int32_t rows = key.rows;
  FORERUN_RETURN_IF_ERROR(
      embedding_cuda({.source = pinned_step_,
                      .target = step_.data(),
                      .bytes_offset = static_cast<int32_t>(offsetof(StepHeaderCuda, bytes)),
                      .tokens_offset = static_cast<int32_t>(offsetof(StepHeaderCuda, tokens)),
                      .table = weights_.embedding.as<__nv_bfloat16>(),
                      .table_tokens = config_.vocab_size,
                      .dim = config_.hidden_size,
                      .output = hidden_.as<__nv_bfloat16>(),
                      .rows = rows,
                      .to_clear = arrivals_.as<uint32_t>(),
                      .clear_count = static_cast<int32_t>(arrivals_.bytes() / sizeof(uint32_t))},
                     stream_.get()));
  for (size_t layer_idx = 0; layer_idx < weights_.layers.size(); ++layer_idx) {
    FORERUN_RETURN_IF_ERROR(submit_layer(layer_idx, key));
  }
  return key.wanted == 0 ? Status() : submit_head(key);
}

Status ShardCuda::submit_head(const PassKeyCuda& key) {
  FORERUN_RETURN_IF_ERROR(rms_norm_cuda({.input = hidden_.as<__nv_bfloat16>(),
                                         .row_index = reinterpret_cast<const int32_t*>(
                                             step_.data() + offsetof(StepHeaderCuda, wanted)),
                                         .weight = weights_.final_norm.as<float>(),
                                         .output = normalized_.as<__nv_bfloat16>(),
                                         .dim = config_.hidden_size,
                                         .rows = key.wanted,
                                         .eps = config_.rms_norm_eps},
                                        stream_.get()));
  return linear_cuda(weights_.head,
                     {.input = normalized_.as<__nv_bfloat16>(),
                      .input_stride = config_.hidden_size,
                      .output_f32 = logits_.as<float>(),
                      .output_stride = logits_stride(),
                      .rows = key.wanted},
                     stream_.get());
}

}  // namespace forerun::cuda
