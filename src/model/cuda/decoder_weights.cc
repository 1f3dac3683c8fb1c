#include "model/cuda/decoder_weights.h"

#include <cuda_bf16.h>

#include <algorithm>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/dtype.h"
#include "base/status_macros.h"
#include "checkpoint/float_tensor.h"
#include "device/cuda/cuda_error.h"
#include "device/cuda/cuda_stream.h"
#include "model/cuda/slice_uploader.h"
#include "model/held_tensors.h"
#include "model/weight_packing.h"

namespace forerun::cuda {
namespace {

int64_t whole_tiles(int64_t outputs) {
  return (outputs + kTileOutputs - 1) / kTileOutputs * kTileOutputs;
}

class Loader {
 public:
  Loader(const Checkpoint& checkpoint, const ShardLayoutCuda& layout,
         const DecoderWeightsOptionsCuda& options, const std::function<void(double)>& progress,
         const Stream* stream, SliceUploader uploader)
      : checkpoint_(checkpoint),
        config_(checkpoint.config()),
        layout_(layout),
        options_(options),
        layers_(options.layers),
        progress_(progress),
        stream_(stream),
        uploader_(std::move(uploader)) {
    total_bytes_ = static_cast<double>(held_bytes(checkpoint, layers_));
  }

  Result<DecoderWeightsCuda> run();

 private:
  struct BiasPart {
    ModuleId module;
    Slice out;
    int64_t first_output = 0;
  };

  Status load_layer(int32_t layer_idx, LayerWeightsCuda& layer);
  Status load_biases(int32_t layer_idx, LayerWeightsCuda& layer);
  Status load_linear(const Checkpoint& checkpoint, const FusedLinear& linear, LinearWeightCuda& to);
  Status load_linear(const FusedLinear& linear, LinearWeightCuda& to) {
    return load_linear(checkpoint_, linear, to);
  }
  Status load_qkv(const FusedLinear& linear, QkvWeightsCuda& to);
  // Loads the parts of a layer, or a run of them, which become one weight.
  Status load_parts(const FusedLinear& linear, std::span<const LinearSource> sources,
                    LinearWeightCuda& to);
  Status pack(const LinearSource& source, const FusedPart& part, const Slice& in,
              LinearWeightCuda& to);
  Status pack_floats(const __nv_bfloat16* weight, const FusedPart& part, LinearWeightCuda& to);
  Status load_embedding(const Checkpoint& checkpoint, DecoderWeightsCuda& to);
  // Loads the weights by which an EAGLE-3 head makes features.
  Status load_tap_projection(DecoderWeightsCuda& to);
  Status load_head(DecoderWeightsCuda& to);
  Status load_norm(ModuleId module, DeviceBuffer& to) { return load_norms({module}, to); }
  Status load_norms(const std::vector<ModuleId>& modules, DeviceBuffer& to);  // side by side
  Status load_bias(const std::vector<BiasPart>& parts, int64_t outputs, DeviceBuffer& to);
  void done(const RawTensor& tensor) {
    done_bytes_ += static_cast<double>(stored_bytes(tensor));
    checkpoint_.release_pages(tensor);
    if (progress_ && total_bytes_ > 0) progress_(std::min(1.0, done_bytes_ / total_bytes_));
  }

  const Checkpoint& checkpoint_;
  const ModelConfig& config_;
  const ShardLayoutCuda& layout_;
  const DecoderWeightsOptionsCuda& options_;
  const LayerRange layers_;
  const std::function<void(double)>& progress_;
  const Stream* stream_;
  SliceUploader uploader_;
  bool reads_tied_head_ = false;  // the head is tied, but not a copy of the embedding on the GPU
  double total_bytes_ = 0;
  double done_bytes_ = 0;
};

Status Loader::pack(const LinearSource& source, const FusedPart& part, const Slice& in,
                    LinearWeightCuda& to) {
  const LinearFormat format = to.plan().format;
  const std::optional<LinearFormat> stored = format_as_stored(part, in, source);
  if (stored == format && format == LinearFormat::kFp8) {
    FORERUN_ASSIGN_OR_RETURN(const std::vector<float> scales, source.fp8_scales(part.out, in));
    FORERUN_ASSIGN_OR_RETURN(const std::byte* codes,
                             uploader_.bring(source.fp8_codes(part.out, in), 0));
    FORERUN_ASSIGN_OR_RETURN(const std::byte* staged_scales,
                             uploader_.bring(std::as_bytes(std::span(scales)), 1));
    return to.pack_stored(StoredFp8{reinterpret_cast<const uint8_t*>(codes),
                                    reinterpret_cast<const float*>(staged_scales)},
                          part.out.total, part.placement, part.first_output, stream_->get());
  }
  if (stored == format && source.has_integers() && !takes_words(part, in, source)) {
    FORERUN_ASSIGN_OR_RETURN(const std::vector<std::byte> blocks,
                             source.integer_blocks(part.out, in, format));
    FORERUN_ASSIGN_OR_RETURN(const std::byte* rows, uploader_.bring(blocks, 0));
    const auto row_bytes = static_cast<int64_t>(blocks.size()) / part.out.total;
    return to.pack_stored(StoredBlocks{rows, row_bytes, 0}, part.out.total, part.placement,
                          part.first_output, stream_->get());
  }
  if (stored == format && is_grouped(format)) {
    const LinearSource::Blocks blocks = source.blocks(part.out, in);
    FORERUN_ASSIGN_OR_RETURN(const std::byte* rows, uploader_.bring(blocks.rows, 0));
    return to.pack_stored(
        StoredBlocks{rows, static_cast<int64_t>(blocks.rows.row_bytes()), blocks.first_input},
        part.out.total, part.placement, part.first_output, stream_->get());
  }
  if (stored == format) {
    const LinearSource::Int4 slices = source.int4(part.out, in);
    FORERUN_ASSIGN_OR_RETURN(const std::byte* qweight, uploader_.bring(slices.qweight, 0));
    FORERUN_ASSIGN_OR_RETURN(const std::byte* qzeros, uploader_.bring(slices.qzeros, 1));
    FORERUN_ASSIGN_OR_RETURN(const std::byte* scales, uploader_.bring(slices.scales, 2));
    return to.pack_awq(reinterpret_cast<const uint32_t*>(qweight),
                       reinterpret_cast<const uint32_t*>(qzeros),
                       reinterpret_cast<const __half*>(scales), part.out.total, part.placement,
                       part.first_output, stream_->get());
  }
  FORERUN_ASSIGN_OR_RETURN(const std::byte* weight,
                           uploader_.bring(source.bf16_part(part.out, in), 0));
  return pack_floats(reinterpret_cast<const __nv_bfloat16*>(weight), part, to);
}

Status Loader::pack_floats(const __nv_bfloat16* weight, const FusedPart& part,
                           LinearWeightCuda& to) {
  switch (to.plan().format) {
    case LinearFormat::kInt4Group128:
      return to.round_bf16_to_int4(weight, part.out.total, part.placement, part.first_output,
                                   stream_->get());
    case LinearFormat::kInt8Group64:
      return to.round_bf16_to_int8(weight, part.out.total, stream_->get());
    default:
      break;
  }
  return to.pack_bf16(weight, part.out.total, part.placement, part.first_output, stream_->get());
}

Status Loader::load_parts(const FusedLinear& linear, std::span<const LinearSource> sources,
                          LinearWeightCuda& to) {
  if (linear.outputs == 0) return {};
  FORERUN_ASSIGN_OR_RETURN(const LinearPlan plan, plan_fused(linear, sources));
  FORERUN_ASSIGN_OR_RETURN(to, LinearWeightCuda::allocate(plan));
  for (size_t i = 0; i < sources.size() && !linear.all_zero(); ++i) {
    const FusedPart& part = linear.parts[i];
    FORERUN_RETURN_IF_ERROR(
        pack(sources[i], part, linear.in, to)
            .with_context(module_name(part.module, ModuleNaming::kHuggingFace)));
  }
  return {};
}

Status Loader::load_linear(const Checkpoint& checkpoint, const FusedLinear& linear,
                           LinearWeightCuda& to) {
  FORERUN_ASSIGN_OR_RETURN(const std::vector<LinearSource> sources,
                           find_sources(checkpoint, linear));
  FORERUN_RETURN_IF_ERROR(load_parts(linear, sources, to));
  if (&checkpoint != &checkpoint_) return {};
  for (const LinearSource& source : sources) done(source.tensor());
  return {};
}

Status Loader::load_qkv(const FusedLinear& linear, QkvWeightsCuda& to) {
  FORERUN_ASSIGN_OR_RETURN(const std::vector<LinearSource> sources,
                           find_sources(checkpoint_, linear));
  if (linear.outputs > 0) {
    for (const FusedRun& run : runs_of_one_format(linear, sources)) {
      QkvWeightsCuda::Run& loaded = to.runs.emplace_back();
      loaded.first_output = run.first_output;
      FORERUN_RETURN_IF_ERROR(load_parts(run.linear, run.sources(sources), loaded.weight));
    }
  }
  for (const LinearSource& source : sources) done(source.tensor());
  return {};
}

Status Loader::load_norms(const std::vector<ModuleId>& modules, DeviceBuffer& to) {
  std::vector<float> values;
  for (const ModuleId module : modules) {
    FORERUN_ASSIGN_OR_RETURN(const RawTensor* tensor, require_weight(checkpoint_, module));
    FORERUN_RETURN_IF_ERROR(check_readable(*tensor));
    const size_t begin = values.size();
    values.resize(begin + static_cast<size_t>(tensor->shape[0]));
    widen(*tensor, 0, tensor->shape[0], values.data() + begin);
  }
  FORERUN_ASSIGN_OR_RETURN(
      to, DeviceBuffer::allocate(values.size() * sizeof(float), "the weight of a normalization"));
  return to.upload(std::as_bytes(std::span(values)));
}

Status Loader::load_bias(const std::vector<BiasPart>& parts, int64_t outputs, DeviceBuffer& to) {
  std::vector<bf16> values(static_cast<size_t>(whole_tiles(outputs)), bf16{0});
  for (const BiasPart& part : parts) {
    FORERUN_ASSIGN_OR_RETURN(const RawTensor* tensor, require_bias(checkpoint_, part.module));
    FORERUN_RETURN_IF_ERROR(check_readable(*tensor));
    std::vector<float> wide(static_cast<size_t>(part.out.from.size()));
    widen(*tensor, part.out.from.begin, part.out.from.size(), wide.data());
    std::transform(wide.begin(), wide.end(), values.begin() + part.first_output + part.out.lead,
                   [](float value) { return to_bf16(value); });
  }
  FORERUN_ASSIGN_OR_RETURN(
      to, DeviceBuffer::allocate(values.size() * sizeof(bf16), "the bias of a linear layer"));
  return to.upload(std::as_bytes(std::span(values)));
}

Status Loader::load_biases(int32_t layer_idx, LayerWeightsCuda& layer) {
  if (config_.qkv_bias && layout_.has_heads()) {
    FORERUN_RETURN_IF_ERROR(
        load_bias({{{ModuleKind::kQ, layer_idx}, layout_.q_out, 0},
                   {{ModuleKind::kK, layer_idx}, layout_.kv_out, layout_.k_offset},
                   {{ModuleKind::kV, layer_idx}, layout_.kv_out, layout_.v_offset}},
                  layout_.qkv_width, layer.qkv_bias));
  }
  if (!config_.o_bias) return {};
  return load_bias({{{ModuleKind::kO, layer_idx}, Slice::of_all(config_.hidden_size), 0}},
                   config_.hidden_size, layer.o_bias);
}

Status Loader::load_layer(int32_t layer_idx, LayerWeightsCuda& layer) {
  FORERUN_RETURN_IF_ERROR(load_norm({ModuleKind::kInputNorm, layer_idx}, layer.input_norm));
  FORERUN_RETURN_IF_ERROR(
      load_norm({ModuleKind::kPostAttentionNorm, layer_idx}, layer.post_attention_norm));
  if (config_.eagle3 && layer_idx == 0) {
    FORERUN_RETURN_IF_ERROR(load_norm({ModuleKind::kHiddenNorm, layer_idx}, layer.hidden_norm));
  }
  const LayerLinears linears = layer_linears(config_, layout_, layer_idx, options_.weights);
  FORERUN_RETURN_IF_ERROR(load_qkv(linears.qkv, layer.qkv));
  FORERUN_RETURN_IF_ERROR(load_linear(linears.o, layer.o));
  FORERUN_RETURN_IF_ERROR(load_linear(linears.gate_up, layer.gate_up));
  FORERUN_RETURN_IF_ERROR(load_linear(linears.down, layer.down));
  FORERUN_RETURN_IF_ERROR(load_biases(layer_idx, layer));
  if (config_.qk_norm) {
    FORERUN_RETURN_IF_ERROR(load_norm({ModuleKind::kQNorm, layer_idx}, layer.q_norm));
    FORERUN_RETURN_IF_ERROR(load_norm({ModuleKind::kKNorm, layer_idx}, layer.k_norm));
  }
  return {};
}

Status Loader::load_embedding(const Checkpoint& checkpoint, DecoderWeightsCuda& to) {
  FORERUN_ASSIGN_OR_RETURN(const RawTensor* tensor,
                           require_weight(checkpoint, {ModuleKind::kEmbedding}));
  FORERUN_RETURN_IF_ERROR(check_readable(*tensor));
  const MatrixSlice whole = embedding_rows(*tensor);
  FORERUN_ASSIGN_OR_RETURN(to.embedding, DeviceBuffer::allocate(whole.bytes(), "the embedding"));
  FORERUN_RETURN_IF_ERROR(uploader_.upload(whole, to.embedding.data()));
  to.embedding_table = {.rows = to.embedding.data(),
                        .row_bytes = static_cast<int64_t>(whole.row_bytes()),
                        .tokens = checkpoint.config().vocab_size,
                        .format = gpu_embedding_format(*tensor).value_or(LinearFormat::kBf16)};
  if (&checkpoint == &checkpoint_ && !reads_tied_head_) done(*tensor);
  return {};
}

Status Loader::load_tap_projection(DecoderWeightsCuda& to) {
  using enum ModuleKind;
  FORERUN_RETURN_IF_ERROR(
      load_linear(tap_projection_linear(config_, options_.weights), to.tap_projection));
  switch (config_.eagle3->norm_of_taps) {
    case Eagle3Config::NormOfTaps::kNone:
      return {};
    case Eagle3Config::NormOfTaps::kTogether:
      return load_norm({kTapNorms}, to.tap_norms);
    case Eagle3Config::NormOfTaps::kEach:
      break;
  }
  return load_norms({{kTapNormLow}, {kTapNormMiddle}, {kTapNormHigh}}, to.tap_norms);
}

Status Loader::load_head(DecoderWeightsCuda& to) {
  const LmHeadSource& source = options_.lm_head;
  if (source.checkpoint == nullptr) return {};
  const FusedLinear head = head_linear(config_, layout_, options_.weights, source.module);
  if (!config_.tied_embeddings || reads_tied_head_) {
    return load_linear(*source.checkpoint, head, to.head);
  }
  if (head.outputs == 0) return {};
  FORERUN_ASSIGN_OR_RETURN(const LinearPlan plan, plan_fused(head, {}));
  FORERUN_ASSIGN_OR_RETURN(to.head, LinearWeightCuda::allocate(plan));
  return pack_floats(
      to.embedding.as<__nv_bfloat16>() + layout_.head_out.from.begin * config_.hidden_size,
      head.parts.front(), to.head);
}

Result<DecoderWeightsCuda> Loader::run() {
  DecoderWeightsCuda out;
  if (has_own_embedding(config_) && layers_.holds({ModuleKind::kEmbedding}, config_)) {
    FORERUN_ASSIGN_OR_RETURN(const bool is_copied, tied_head_is_copied(checkpoint_));
    reads_tied_head_ = config_.tied_embeddings && layers_.heads && !is_copied;
    if (layers_.embeds || is_copied) FORERUN_RETURN_IF_ERROR(load_embedding(checkpoint_, out));
  } else if (options_.target_embedding != nullptr) {
    FORERUN_RETURN_IF_ERROR(load_embedding(*options_.target_embedding, out));
  }
  if (config_.eagle3) FORERUN_RETURN_IF_ERROR(load_tap_projection(out));
  if (layers_.heads) {
    FORERUN_RETURN_IF_ERROR(load_head(out));
    FORERUN_RETURN_IF_ERROR(load_norm({ModuleKind::kFinalNorm}, out.final_norm));
  }
  if (!layers_.embeds) {
    FORERUN_RETURN_IF_ERROR(stream_->synchronize());  // the head has been packed
    out.embedding = {};
    out.embedding_table = {};
  }
  out.layers.resize(static_cast<size_t>(layers_.size()));
  for (size_t layer = 0; layer < out.layers.size(); ++layer) {
    FORERUN_RETURN_IF_ERROR(
        load_layer(layers_.begin + static_cast<int32_t>(layer), out.layers[layer]));
  }
  FORERUN_RETURN_IF_ERROR(stream_->synchronize());
  if (progress_) progress_(1.0);
  return out;
}

}  // namespace

Result<DecoderWeightsCuda> load_decoder_weights_cuda(const Checkpoint& checkpoint,
                                                     const ShardLayoutCuda& layout,
                                                     const DecoderWeightsOptionsCuda& options,
                                                     const std::function<void(double)>& progress) {
  FORERUN_ASSIGN_OR_RETURN(const Stream stream, Stream::create());
  FORERUN_ASSIGN_OR_RETURN(SliceUploader uploader, SliceUploader::create(&stream));
  return Loader(checkpoint, layout, options, progress, &stream, std::move(uploader)).run();
}

}  // namespace forerun::cuda
