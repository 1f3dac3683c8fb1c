#include "model/cuda/decoder_weights_cuda.h"

#include <cuda_bf16.h>

#include <algorithm>
#include <cstring>
#include <optional>
#include <string>
#include <utility>

#include "base/dtype.h"
#include "checkpoint/float_tensor.h"
#include "device/cuda/cuda_error.h"
#include "device/cuda/cuda_stream.h"
#include "kernels/linear/linear_weight.h"

namespace forerun::cuda {
namespace {

int64_t whole_tiles(int64_t outputs) {
  return (outputs + kTileOutputs - 1) / kTileOutputs * kTileOutputs;
}

std::vector<float> widened(const RawTensor& tensor, int64_t elements) {
  std::vector<float> wide(static_cast<size_t>(elements));
  widen(tensor, 0, elements, wide.data());
  return wide;
}

std::vector<bf16> narrowed(const std::vector<float>& wide) {
  std::vector<bf16> narrow(wide.size());
  std::transform(wide.begin(), wide.end(), narrow.begin(), [](float v) { return to_bf16(v); });
  return narrow;
}

// A module of the checkpoint as it is stored: one of the two is set.
struct Source {
  const RawTensor* plain = nullptr;
  std::optional<AwqTensors> awq;
  int64_t outputs = 0;
  int64_t inputs = 0;

  // Whether the int4 kernels take it as it is; `step`: what its outputs must be a multiple of.
  bool packs_as_int4(int64_t step) const {
    return awq && awq->group_size == kInt4Group && inputs % kInt4Group == 0 &&
           outputs % step == 0 && awq->scales->dtype == DType::kF16;
  }
};

class Loader {
 public:
  Loader(const Checkpoint& checkpoint, const std::function<void(double)>& progress, Stream stream)
      : checkpoint_(checkpoint), progress_(progress), stream_(std::move(stream)) {
    for (const RawTensor& tensor : checkpoint.tensors()) {
      total_bytes_ += static_cast<double>(tensor.bytes.size());
    }
  }

  Result<DecoderWeightsCuda> run(int32_t live_vocab);

 private:
  struct Part {
    std::string module;
    OutputPlacement placement = OutputPlacement::kPlain;
    int64_t first_output = 0;
  };

  Status load_layer(const std::string& prefix, LayerWeightsCuda& layer);
  // A layer whose outputs come from several modules.
  Status load_linear(const std::vector<Part>& parts, int64_t outputs, LinearWeightCuda& to);
  Status pack_int4(const Source& source, const Part& part, LinearWeightCuda& to);
  Status pack_bf16(const Source& source, const Part& part, LinearWeightCuda& to);
  Status load_norm(const std::string& name, DeviceBuffer& to);
  Status load_bias(const std::vector<std::pair<std::string, int64_t>>& parts, int64_t outputs,
                   DeviceBuffer& to);
  Result<Source> source_of(const std::string& module) const;
  // Bytes in device memory until the next call with the same `place`.
  Result<const std::byte*> upload(int place, std::span<const std::byte> bytes);
  Result<const __nv_bfloat16*> upload_bf16(const RawTensor& tensor, int64_t elements);
  void done(const RawTensor& tensor) {
    done_bytes_ += static_cast<double>(tensor.bytes.size());
    checkpoint_.release_pages(tensor);
    if (progress_ && total_bytes_ > 0) progress_(std::min(1.0, done_bytes_ / total_bytes_));
  }

  const Checkpoint& checkpoint_;
  const std::function<void(double)>& progress_;
  Stream stream_;
  DeviceBuffer scratch_[3];
  double total_bytes_ = 0;
  double done_bytes_ = 0;
};

Result<Source> Loader::source_of(const std::string& module) const {
  Source source;
  if (checkpoint_.config().quantization.kind == QuantizationConfig::Kind::kAwq) {
    auto awq = find_awq_tensors(checkpoint_, module);
    if (awq.ok()) {
      source.awq = *awq;
      source.outputs = awq->out_features;
      source.inputs = awq->in_features;
      return source;
    }
    if (awq.status().code() != StatusCode::kNotFound) return awq.status();
  }
  FORERUN_ASSIGN_OR_RETURN(source.plain, require_tensor(checkpoint_, module + ".weight"));
  FORERUN_RETURN_IF_ERROR(check_float(*source.plain));
  source.outputs = source.plain->shape[0];
  source.inputs = source.plain->shape[1];
  return source;
}

Result<const std::byte*> Loader::upload(int place, std::span<const std::byte> bytes) {
  DeviceBuffer& buffer = scratch_[place];
  FORERUN_RETURN_IF_ERROR(stream_.synchronize());  // its last contents have been packed
  if (buffer.bytes() < bytes.size()) {
    buffer = DeviceBuffer();
    FORERUN_ASSIGN_OR_RETURN(
        buffer, DeviceBuffer::allocate(bytes.size(), "a tensor on its way to the kernels' format"));
  }
  FORERUN_RETURN_IF_ERROR(buffer.upload(bytes));
  return static_cast<const std::byte*>(buffer.data());
}

Result<const __nv_bfloat16*> Loader::upload_bf16(const RawTensor& tensor, int64_t elements) {
  const auto bytes = static_cast<size_t>(elements) * sizeof(bf16);
  std::vector<bf16> narrow;
  std::span<const std::byte> source = tensor.bytes.first(std::min(bytes, tensor.bytes.size()));
  if (tensor.dtype != DType::kBf16) {
    narrow = narrowed(widened(tensor, elements));
    source = std::as_bytes(std::span(narrow));
  }
  FORERUN_ASSIGN_OR_RETURN(const std::byte* data, upload(0, source));
  return reinterpret_cast<const __nv_bfloat16*>(data);
}

Status Loader::pack_int4(const Source& source, const Part& part, LinearWeightCuda& to) {
  FORERUN_ASSIGN_OR_RETURN(const std::byte* qweight, upload(0, source.awq->qweight->bytes));
  FORERUN_ASSIGN_OR_RETURN(const std::byte* qzeros, upload(1, source.awq->qzeros->bytes));
  FORERUN_ASSIGN_OR_RETURN(const std::byte* scales, upload(2, source.awq->scales->bytes));
  return to.pack_awq(reinterpret_cast<const uint32_t*>(qweight),
                     reinterpret_cast<const uint32_t*>(qzeros),
                     reinterpret_cast<const __half*>(scales), source.outputs, part.placement,
                     part.first_output, stream_.get());
}

Status Loader::pack_bf16(const Source& source, const Part& part, LinearWeightCuda& to) {
  const __nv_bfloat16* weight = nullptr;
  if (source.plain != nullptr) {
    FORERUN_ASSIGN_OR_RETURN(weight, upload_bf16(*source.plain, source.outputs * source.inputs));
  } else {
    // Groups of another size: what the CPU's kernels make of them, rounded to bf16.
    const AwqTensors& awq = *source.awq;
    FORERUN_RETURN_IF_ERROR(check_float(*awq.scales));
    const int64_t groups = awq.in_features / awq.group_size;
    const std::vector<float> scales = widened(*awq.scales, groups * awq.out_features);
    const auto words = [](const RawTensor& tensor) {
      std::vector<int32_t> copy(tensor.bytes.size() / sizeof(int32_t));  // files align nothing
      std::memcpy(copy.data(), tensor.bytes.data(), tensor.bytes.size());
      return copy;
    };
    const std::vector<int32_t> qweight = words(*awq.qweight), qzeros = words(*awq.qzeros);
    const LinearWeight packed = LinearWeight::from_awq(
        MatrixView<const int32_t>(qweight.data(), {awq.in_features, awq.out_features / 8}),
        MatrixView<const int32_t>(qzeros.data(), {groups, awq.out_features / 8}),
        MatrixView<const float>(scales.data(), {groups, awq.out_features}), awq.group_size);
    std::vector<float> wide(static_cast<size_t>(awq.out_features * awq.in_features));
    packed.dequantize(0, MatrixView<float>(wide.data(), {awq.out_features, awq.in_features}));
    const std::vector<bf16> narrow = narrowed(wide);
    FORERUN_ASSIGN_OR_RETURN(const std::byte* data, upload(0, std::as_bytes(std::span(narrow))));
    weight = reinterpret_cast<const __nv_bfloat16*>(data);
  }
  return to.pack_bf16(weight, std::min(source.outputs, to.plan().out_features), part.placement,
                      part.first_output, stream_.get());
}

Status Loader::load_linear(const std::vector<Part>& parts, int64_t outputs, LinearWeightCuda& to) {
  std::vector<Source> sources;
  bool int4 = true;
  for (const Part& part : parts) {
    FORERUN_ASSIGN_OR_RETURN(Source source, source_of(part.module));
    int4 = int4 && source.packs_as_int4(part.placement == OutputPlacement::kPlain ? 8 : 16);
    sources.push_back(std::move(source));
  }
  const LinearFormat format = int4 ? LinearFormat::kInt4Group128 : LinearFormat::kBf16;
  FORERUN_ASSIGN_OR_RETURN(const LinearPlan plan,
                           plan_linear(format, sources.front().inputs, outputs));
  FORERUN_ASSIGN_OR_RETURN(to, LinearWeightCuda::allocate(plan));
  for (size_t i = 0; i < parts.size(); ++i) {
    const Source& source = sources[i];
    FORERUN_RETURN_IF_ERROR(
        (int4 ? pack_int4(source, parts[i], to) : pack_bf16(source, parts[i], to))
            .with_context(parts[i].module));
    if (source.plain != nullptr) {
      done(*source.plain);
    } else {
      for (const RawTensor* t : {source.awq->qweight, source.awq->qzeros, source.awq->scales}) {
        done(*t);
      }
    }
  }
  return {};
}

Status Loader::load_norm(const std::string& name, DeviceBuffer& to) {
  FORERUN_ASSIGN_OR_RETURN(const RawTensor* tensor, require_tensor(checkpoint_, name));
  FORERUN_RETURN_IF_ERROR(check_float(*tensor));
  const std::vector<float> values = widened(*tensor, tensor->shape[0]);
  FORERUN_ASSIGN_OR_RETURN(
      to, DeviceBuffer::allocate(values.size() * sizeof(float), "the weight of a normalization"));
  return to.upload(std::as_bytes(std::span(values)));
}

Status Loader::load_bias(const std::vector<std::pair<std::string, int64_t>>& parts, int64_t outputs,
                         DeviceBuffer& to) {
  std::vector<bf16> values(static_cast<size_t>(whole_tiles(outputs)), bf16{0});
  for (const auto& [name, first] : parts) {
    FORERUN_ASSIGN_OR_RETURN(const RawTensor* tensor, require_tensor(checkpoint_, name));
    FORERUN_RETURN_IF_ERROR(check_float(*tensor));
    const std::vector<bf16> part = narrowed(widened(*tensor, tensor->shape[0]));
    std::copy(part.begin(), part.end(), values.begin() + first);
  }
  FORERUN_ASSIGN_OR_RETURN(
      to, DeviceBuffer::allocate(values.size() * sizeof(bf16), "the bias of a linear layer"));
  return to.upload(std::as_bytes(std::span(values)));
}

Status Loader::load_layer(const std::string& prefix, LayerWeightsCuda& layer) {
  const ModelConfig& config = checkpoint_.config();
  const std::string attention = prefix + "self_attn.";
  const std::string mlp = prefix + "mlp.";
  const QkvLayout qkv = qkv_layout(config);
  FORERUN_RETURN_IF_ERROR(load_norm(prefix + "input_layernorm.weight", layer.input_norm));
  FORERUN_RETURN_IF_ERROR(
      load_norm(prefix + "post_attention_layernorm.weight", layer.post_attention_norm));
  FORERUN_RETURN_IF_ERROR(
      load_linear({{attention + "q_proj", OutputPlacement::kPlain, 0},
                   {attention + "k_proj", OutputPlacement::kPlain, qkv.k_offset},
                   {attention + "v_proj", OutputPlacement::kPlain, qkv.v_offset}},
                  qkv.width, layer.qkv));
  FORERUN_RETURN_IF_ERROR(load_linear({{attention + "o_proj", OutputPlacement::kPlain, 0}},
                                      config.hidden_size, layer.o));
  FORERUN_RETURN_IF_ERROR(load_linear(
      {{mlp + "gate_proj", OutputPlacement::kGate, 0}, {mlp + "up_proj", OutputPlacement::kUp, 0}},
      2 * int64_t{config.intermediate_size}, layer.gate_up));
  FORERUN_RETURN_IF_ERROR(load_linear({{mlp + "down_proj", OutputPlacement::kPlain, 0}},
                                      config.hidden_size, layer.down));
  if (config.qkv_bias) {
    FORERUN_RETURN_IF_ERROR(load_bias({{attention + "q_proj.bias", 0},
                                       {attention + "k_proj.bias", qkv.k_offset},
                                       {attention + "v_proj.bias", qkv.v_offset}},
                                      qkv.width, layer.qkv_bias));
  }
  if (config.o_bias) {
    FORERUN_RETURN_IF_ERROR(
        load_bias({{attention + "o_proj.bias", 0}}, config.hidden_size, layer.o_bias));
  }
  if (config.qk_norm) {
    FORERUN_RETURN_IF_ERROR(load_norm(attention + "q_norm.weight", layer.q_norm));
    FORERUN_RETURN_IF_ERROR(load_norm(attention + "k_norm.weight", layer.k_norm));
  }
  return {};
}

Result<DecoderWeightsCuda> Loader::run(int32_t live_vocab) {
  const ModelConfig& config = checkpoint_.config();
  DecoderWeightsCuda out;
  FORERUN_ASSIGN_OR_RETURN(const RawTensor* embedding,
                           require_tensor(checkpoint_, "model.embed_tokens.weight"));
  FORERUN_RETURN_IF_ERROR(check_float(*embedding));
  const int64_t elements = int64_t{config.vocab_size} * config.hidden_size;
  FORERUN_ASSIGN_OR_RETURN(const __nv_bfloat16* table, upload_bf16(*embedding, elements));
  FORERUN_ASSIGN_OR_RETURN(
      out.embedding,
      DeviceBuffer::allocate(static_cast<size_t>(elements) * sizeof(bf16), "the embedding"));
  FORERUN_CUDA_RETURN_IF_ERROR(
      cudaMemcpy(out.embedding.data(), table, out.embedding.bytes(), cudaMemcpyDeviceToDevice),
      "copying the embedding");
  FORERUN_CUDA_RETURN_IF_ERROR(cudaStreamSynchronize(nullptr), "copying the embedding");
  if (config.tied_embeddings) {
    FORERUN_ASSIGN_OR_RETURN(const LinearPlan plan,
                             plan_linear(LinearFormat::kBf16, config.hidden_size, live_vocab));
    FORERUN_ASSIGN_OR_RETURN(out.head, LinearWeightCuda::allocate(plan));
    FORERUN_RETURN_IF_ERROR(out.head.pack_bf16(out.embedding.as<__nv_bfloat16>(), live_vocab,
                                               OutputPlacement::kPlain, 0, stream_.get()));
  } else {
    const bool int4 = config.quantization.kind == QuantizationConfig::Kind::kAwq &&
                      find_awq_tensors(checkpoint_, "lm_head").ok();
    FORERUN_RETURN_IF_ERROR(load_linear({{"lm_head", OutputPlacement::kPlain, 0}},
                                        int4 ? config.vocab_size : live_vocab, out.head));
  }
  done(*embedding);
  out.layers.resize(static_cast<size_t>(config.num_layers));
  for (size_t layer = 0; layer < out.layers.size(); ++layer) {
    FORERUN_RETURN_IF_ERROR(
        load_layer("model.layers." + std::to_string(layer) + ".", out.layers[layer]));
  }
  FORERUN_RETURN_IF_ERROR(load_norm("model.norm.weight", out.final_norm));
  FORERUN_RETURN_IF_ERROR(stream_.synchronize());
  if (progress_) progress_(1.0);
  return out;
}

}  // namespace

QkvLayout qkv_layout(const ModelConfig& config) {
  const int64_t kv = int64_t{config.num_kv_heads} * config.head_dim;
  QkvLayout layout;
  layout.k_offset = static_cast<int32_t>(whole_tiles(int64_t{config.num_heads} * config.head_dim));
  layout.v_offset = layout.k_offset + static_cast<int32_t>(whole_tiles(kv));
  layout.width = layout.v_offset + static_cast<int32_t>(whole_tiles(kv));
  return layout;
}

Result<DecoderWeightsCuda> load_decoder_weights_cuda(const Checkpoint& checkpoint,
                                                     int32_t live_vocab,
                                                     const std::function<void(double)>& progress) {
  FORERUN_ASSIGN_OR_RETURN(Stream stream, Stream::create());
  return Loader(checkpoint, progress, std::move(stream)).run(live_vocab);
}

}  // namespace forerun::cuda
