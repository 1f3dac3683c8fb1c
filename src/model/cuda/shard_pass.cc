// The kernels of a pass on a GPU's stream, in their order. They are captured once per PassKeyCuda.
#include "base/status_macros.h"
#include "device/cuda/cuda_error.h"
#include "kernels/embedding/cuda/embedding.h"
#include "kernels/features/cuda/keep_taps.h"
#include "kernels/features/cuda/spread_logits.h"
#include "kernels/kv_select/cuda/kv_select.h"
#include "kernels/linear/cuda/gather.h"
#include "kernels/logits_summary/cuda/logits_summary.h"
#include "model/cuda/shard.h"

namespace forerun::cuda {

namespace {

ActivationFormat input_format(const LinearWeightCuda& reader) {
  return linear_input_format(reader.plan().format);
}

}  // namespace

NormOutputCuda ShardCuda::norm_of_hidden(const DeviceBuffer& weight,
                                         ActivationFormat reader) const {
  return {.weight = weight.as<float>(),
          .scaled = scaled_.as<uint16_t>(),
          .squares = squares_.as<float>(),
          .format = reader};
}

NormInputCuda ShardCuda::normed() const {
  return {.squares = squares_.as<float>(), .eps = config_.rms_norm_eps};
}

Status ShardCuda::submit_layer(size_t layer_idx, const PassKeyCuda& key) {
  const int32_t rows = key.rows;
  const LayerWeightsCuda& layer = weights_.layers[layer_idx];
  const int64_t hidden_stride = linear_input_stride(config_.hidden_size, rows);
  const int64_t mlp_stride = linear_input_stride(layout_.mlp_in.total, rows);
  const auto bf16 = [](const DeviceBuffer& buffer) { return buffer.as<__nv_bfloat16>(); };
  const auto activations = [](const DeviceBuffer& buffer) { return buffer.as<uint16_t>(); };
  const cudaStream_t stream = stream_.get();

  const int turn = static_cast<int>(layer_idx % 2);
  const bool last = layer_idx + 1 == weights_.layers.size();
  // The norm after a stage's last layer belongs to the next stage.
  const NormOutputCuda next_input =
      !last           ? norm_of_hidden(weights_.layers[layer_idx + 1].input_norm,
                                       weights_.layers[layer_idx + 1].qkv.input_format())
      : layers_.heads ? norm_of_hidden(weights_.final_norm, input_format(lm_head()))
                      : NormOutputCuda();
  // Adds W * input, summed over all GPUs, to x.
  const auto add_linear = [&](const LinearWeightCuda& weight, const uint16_t* input,
                              int64_t input_stride, const __nv_bfloat16* bias,
                              const NormOutputCuda& next_norm, int mailbox) {
    return linear_cuda(
        weight,
        {.input = input,
         .input_stride = input_stride,
         .output = activations(hidden_),
         .output_stride = hidden_stride,
         .rows = rows,
         .bias = bias,
         .residual = bf16(hidden_),
         .next_norm = next_norm,
         .reduce = peers_,
         .mailbox = mailbox,
         .footprint = shares_gpu_ ? LinearFootprint::kHalf : LinearFootprint::kOverHalf,
         .scratch = linear_scratch()},
        stream);
  };

  if (layout_.has_heads()) {
    // A trained head's first layer reads the input that HeadInputCuda has normalized.
    const bool is_joined = config_.eagle3 && layer_idx == 0;
    for (const QkvWeightsCuda::Run& run : layer.qkv.runs) {
      const auto* const bias = bf16(layer.qkv_bias);
      FORERUN_RETURN_IF_ERROR(linear_cuda(
          run.weight,
          {.input = is_joined ? head_input_.joined() : activations(scaled_),
           .input_stride = is_joined ? linear_input_stride(2 * int64_t{config_.hidden_size}, rows)
                                     : hidden_stride,
           .output = activations(qkv_out_) + run.first_output,
           .output_stride = layout_.qkv_width,
           .rows = rows,
           .bias = bias == nullptr ? nullptr : bias + run.first_output,
           .norm = is_joined ? NormInputCuda() : normed(),
           .shares_reduce_kernel = peers_ != nullptr,
           .footprint = shares_gpu_ ? LinearFootprint::kHalf : LinearFootprint::kBesideAttention,
           .scratch = linear_scratch()},
          stream));
    }
    FORERUN_RETURN_IF_ERROR(submit_attention(layer_idx, key));
  }
  FORERUN_RETURN_IF_ERROR(
      add_linear(layer.o, activations(attended_) + layout_.attended_offset,
                 linear_input_stride(layout_.attended_width, key.rows), bf16(layer.o_bias),
                 norm_of_hidden(layer.post_attention_norm, input_format(layer.gate_up)),
                 /*mailbox=*/one_sum_a_layer_ ? turn : 0));
  if (layout_.has_mlp()) {
    FORERUN_RETURN_IF_ERROR(linear_cuda(layer.gate_up,
                                        {.input = activations(scaled_),
                                         .input_stride = hidden_stride,
                                         .output = activations(mlp_),
                                         .output_stride = mlp_stride,
                                         .rows = rows,
                                         .norm = normed(),
                                         .gated = true,
                                         .gated_format = input_format(layer.down),
                                         .shares_reduce_kernel = peers_ != nullptr,
                                         .scratch = linear_scratch()},
                                        stream));
  }
  return add_linear(layer.down, activations(mlp_), mlp_stride, /*bias=*/nullptr, next_input,
                    /*mailbox=*/one_sum_a_layer_ ? turn : 1);
}

Status ShardCuda::submit_attention(size_t layer_idx, const PassKeyCuda& key) {
  const LayerWeightsCuda& layer = weights_.layers[layer_idx];
  const auto* const step = reinterpret_cast<const AttentionStepCuda*>(step_.data());
  const PagedKvCuda kv = layer_kv(layer_idx);
  if (!fuses_rope_append(key.kernel)) {
    FORERUN_RETURN_IF_ERROR(rope_append_cuda({.step = step,
                                              .qkv = qkv_out_.as<__nv_bfloat16>(),
                                              .qkv_stride = layout_.qkv_width,
                                              .k_offset = layout_.k_offset,
                                              .v_offset = layout_.v_offset,
                                              .q = q_.as<__nv_bfloat16>(),
                                              .num_heads = layout_.num_heads,
                                              .rows = key.rows,
                                              .kv = kv,
                                              .q_norm = layer.q_norm.as<float>(),
                                              .k_norm = layer.k_norm.as<float>(),
                                              .eps = config_.rms_norm_eps},
                                             stream_.get()));
  }
  FORERUN_RETURN_IF_ERROR(submit_selections(kv));
  const int64_t flags = int64_t{kMaxPassRows} * shape_.attention.kv_parts;
  return attention_cuda(
      {.step = step,
       .q = q_.as<__nv_bfloat16>(),
       .qkv = qkv_out_.as<__nv_bfloat16>(),
       .qkv_stride = layout_.qkv_width,
       .k_offset = layout_.k_offset,
       .v_offset = layout_.v_offset,
       .attended = attended_.as<uint16_t>(),
       .attended_format = input_format(layer.o),
       .attended_stride = linear_input_stride(layout_.attended_width, key.rows),
       .num_heads = layout_.num_heads,
       .kv = kv,
       .window = config_.sliding_window[static_cast<size_t>(layers_.begin) + layer_idx],
       .partials = partials_.as<float>(),
       .arrivals = arrivals_.as<uint32_t>() + static_cast<int64_t>(layer_idx % 2) * flags,
       .to_clear = arrivals_.as<uint32_t>() + static_cast<int64_t>((layer_idx + 1) % 2) * flags,
       .failed = failed_.as<uint32_t>(),
       // KV that selections have gathered is complete only after the previous kernel.
       .early = layer_idx > 0 && selections_.empty(),
       .kernel = key.kernel,
       .shared_prefix = key.shared_prefix,
       .rows = key.rows},
      stream_.get());
}

// Uses the memory of attention's partial results before attention does.
Status ShardCuda::submit_selections(const PagedKvCuda& kv) {
  const auto list = [this](int32_t offset) {
    return reinterpret_cast<const int32_t*>(step_.data() + offset);
  };
  for (const PassSelectionCuda& selection : selections_) {
    const size_t needed = kv_select_scratch_bytes(selection.observers, selection.max_weighed(),
                                                  layout_.num_heads, layout_.num_kv_heads);
    if (needed > partials_.bytes()) {
      return {StatusCode::kResourceExhausted, "a choice among " + std::to_string(selection.tokens) +
                                                  " tokens needs " + std::to_string(needed) +
                                                  " bytes, there is room for " +
                                                  std::to_string(partials_.bytes())};
    }
    const int64_t query_width = int64_t{layout_.num_heads} * padded_head_dim_cuda(config_.head_dim);
    FORERUN_RETURN_IF_ERROR(
        kv_select_cuda({.q = q_.as<__nv_bfloat16>() + selection.first_row * query_width,
                        .num_heads = layout_.num_heads,
                        .observers = selection.observers,
                        .first_weighed = selection.first_weighed,
                        .weighed_step = selection.weighed_step,
                        .block_table = list(selection.table_offset),
                        .tokens = selection.tokens,
                        .chosen = selection.chosen,
                        .pooling = selection.pooling,
                        .blocks = list(selection.blocks_offset),
                        .kv = kv,
                        .scratch = partials_.as<std::byte>()},
                       stream_.get()));
  }
  return {};
}

Status ShardCuda::submit_taps(int32_t after_layers, const PassKeyCuda& key) {
  if (!key.keeps_taps || taps_ == nullptr) return {};
  for (size_t tap_idx = 0; tap_idx < taps_->after_layers().size(); ++tap_idx) {
    if (taps_->after_layers()[tap_idx] != after_layers) continue;
    FORERUN_RETURN_IF_ERROR(keep_taps_cuda(
        {.step = step_.data(),
         .count_offset = static_cast<int32_t>(offsetof(StepHeaderCuda, num_taps)),
         .taps_offset_offset = static_cast<int32_t>(offsetof(StepHeaderCuda, taps_offset)),
         .hidden = hidden_.as<__nv_bfloat16>(),
         .hidden_stride = linear_input_stride(config_.hidden_size, key.rows),
         .store = taps_->tap(tap_idx),
         .store_stride = taps_->width(),
         .dim = config_.hidden_size,
         .rows = key.rows},
        stream_.get()));
  }
  return {};
}

// A trained head does not need the norm of the embedding alone, but the look-up always writes one.
Status ShardCuda::submit_input(const PassKeyCuda& key) {
  const int32_t rows = key.rows;
  const bool is_head = config_.eagle3.has_value();
  FORERUN_RETURN_IF_ERROR(
      embedding_cuda({.source = pinned_step_,
                      .target = step_.data(),
                      .bytes_offset = static_cast<int32_t>(offsetof(StepHeaderCuda, bytes)),
                      .tokens_offset = static_cast<int32_t>(offsetof(StepHeaderCuda, tokens)),
                      .table = embedding_,
                      .dim = config_.hidden_size,
                      .output = is_head ? head_input_.embedded() : hidden_.as<__nv_bfloat16>(),
                      .output_stride = linear_input_stride(config_.hidden_size, key.rows),
                      .next_norm = norm_of_hidden(weights_.layers.front().input_norm,
                                                  weights_.layers.front().qkv.input_format()),
                      .rows = rows,
                      .to_clear = arrivals_.as<uint32_t>(),
                      .clear_count = static_cast<int32_t>(arrivals_.bytes() / sizeof(uint32_t))},
                     stream_.get()));
  if (!is_head) return layers_.embeds ? submit_taps(0, key) : Status();
  return head_input_.submit(config_, weights_,
                            {.step = step_.data(),
                             .residual = hidden_.as<__nv_bfloat16>(),
                             .rows = rows,
                             .projects_taps = key.projects_taps,
                             .scratch = linear_scratch()},
                            stream_);
}

Status ShardCuda::submit(const PassKeyCuda& key) {
  FORERUN_RETURN_IF_ERROR(submit_input(key));
  for (size_t layer_idx = 0; layer_idx < weights_.layers.size(); ++layer_idx) {
    FORERUN_RETURN_IF_ERROR(submit_layer(layer_idx, key));
    FORERUN_RETURN_IF_ERROR(submit_taps(layers_.begin + static_cast<int32_t>(layer_idx) + 1, key));
  }
  return key.wanted == 0 || !layout_.has_head() ? Status() : submit_head(key);
}

// If more rows want logits than the kernel for few rows takes at once, gathers them so that the
// head's weights are read once.
Status ShardCuda::submit_head(const PassKeyCuda& key) {
  const auto* const wanted =
      reinterpret_cast<const int32_t*>(step_.data() + StepHeaderCuda::wanted_offset(key.rows));
  const int64_t stride = linear_input_stride(config_.hidden_size, key.rows);
  const bool gathers = key.wanted >= kFewestTileRows;
  const int64_t gathered_stride = linear_input_stride(config_.hidden_size, key.wanted);
  if (gathers) {
    FORERUN_RETURN_IF_ERROR(linear_gather_cuda({.row_index = wanted,
                                                .input = scaled_.as<uint16_t>(),
                                                .squares = squares_.as<float>(),
                                                .output = wanted_scaled_.as<uint16_t>(),
                                                .output_squares = wanted_squares_.as<float>(),
                                                .dim = config_.hidden_size,
                                                .input_stride = stride,
                                                .output_stride = gathered_stride,
                                                .rows = key.wanted},
                                               stream_.get()));
  }
  const bool spreads = layout_.spreads_logits();
  FORERUN_RETURN_IF_ERROR(
      linear_cuda(lm_head(),
                  {.input = gathers ? wanted_scaled_.as<uint16_t>() : scaled_.as<uint16_t>(),
                   .input_stride = gathers ? gathered_stride : stride,
                   .row_index = gathers ? nullptr : wanted,
                   .output_f32 = (spreads ? draft_logits_ : logits_).as<float>(),
                   .output_stride = layout_.head_stride(),
                   .rows = key.wanted,
                   .norm = {.squares = gathers ? wanted_squares_.as<float>() : squares_.as<float>(),
                            .eps = config_.rms_norm_eps},
                   .scratch = linear_scratch()},
                  stream_.get()));
  if (spreads) {
    FORERUN_RETURN_IF_ERROR(spread_logits_cuda({.drafts = draft_logits_.as<float>(),
                                                .drafts_stride = layout_.head_stride(),
                                                .column_of = draft_columns_.as<int32_t>(),
                                                .logits = logits_.as<float>(),
                                                .logits_stride = layout_.logits_stride(),
                                                .tokens = static_cast<int32_t>(layout_.num_tokens),
                                                .rows = key.wanted},
                                               stream_.get()));
  }
  return logits_summary_cuda(
      {.logits = logits_.as<float>(),
       .stride = layout_.logits_stride(),
       .tokens = static_cast<int32_t>(layout_.num_tokens),
       .first_token = static_cast<int32_t>(layout_.part.vocab.begin),
       .step = step_.data(),
       .offset_offset = static_cast<int32_t>(offsetof(StepHeaderCuda, queries_offset)),
       .edits_offset_offset = static_cast<int32_t>(offsetof(StepHeaderCuda, edits_offset)),
       .count_offset = static_cast<int32_t>(offsetof(StepHeaderCuda, num_wanted)),
       .summaries = summaries_.as<LogitsSummary>(),
       .rows = key.wanted,
       .peers = maxima_ ? &*maxima_ : nullptr,
       .senders = ranks_with_head_},
      stream_.get());
}

}  // namespace forerun::cuda
