#include "model/decoder_weights.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "base/dtype.h"

namespace forerun {
namespace {

template <class T>
T load_element(const std::byte* from) {
  T value;
  std::memcpy(&value, from, sizeof(T));  // safetensors aligns nothing
  return value;
}

Status check_float(const RawTensor& tensor) {
  switch (tensor.dtype) {
    case DType::kF32:
    case DType::kBf16:
    case DType::kF16:
      return {};
    default:
      return Status(StatusCode::kUnsupported, "tensor " + std::string(tensor.name) + ": dtype " +
                                                  std::string(dtype_name(tensor.dtype)) +
                                                  "; f32, bf16 and f16 are accepted");
  }
}

// Widens `count` elements from element `first` on. Only after check_float().
void widen(const RawTensor& tensor, int64_t first, int64_t count, float* to) {
  const std::byte* from =
      tensor.bytes.data() + first * static_cast<int64_t>(dtype_bytes(tensor.dtype));
  if (tensor.dtype == DType::kF32) {
    std::memcpy(to, from, static_cast<size_t>(count) * sizeof(float));
  } else if (tensor.dtype == DType::kBf16) {
    for (int64_t i = 0; i < count; ++i) to[i] = to_float(load_element<bf16>(from + 2 * i));
  } else {
    for (int64_t i = 0; i < count; ++i) to[i] = to_float(load_element<f16>(from + 2 * i));
  }
}

using FillRows = std::function<void(int64_t first, MatrixView<float> rows)>;

class Loader {
 public:
  Loader(const Checkpoint& checkpoint, WeightOverride weights,
         const std::function<void(double)>& progress)
      : checkpoint_(checkpoint), override_(weights), progress_(progress) {
    for (const RawTensor& tensor : checkpoint.tensors()) {
      total_bytes_ += static_cast<double>(tensor.bytes.size());
    }
  }

  Result<DecoderWeights> run(int32_t live_vocab);

 private:
  Status load_layer(int32_t layer_idx, LayerWeights& layer);
  Status load_vector(const std::string& name, std::vector<float>& to);
  Status load_linear(const std::string& module, LinearWeight& to);
  Status load_plain(const RawTensor& tensor, int64_t rows, LinearWeight& to);
  Status load_awq(const AwqTensors& awq, LinearWeight& to);
  Status load_embedding(const RawTensor& tensor);
  // The overridden form of a weight; `fill(first, w)` writes rows from `first` on as f32.
  void convert(int64_t rows, int64_t in, const FillRows& fill, LinearWeight& to);
  Result<const RawTensor*> find(const std::string& name) const;
  void done(const RawTensor& tensor) {
    done_bytes_ += static_cast<double>(tensor.bytes.size());
    if (progress_ && total_bytes_ > 0) progress_(std::min(1.0, done_bytes_ / total_bytes_));
  }
  // The tensor's elements where they lie, or an aligned copy.
  template <class T>
  const T* elements(const RawTensor& tensor) {
    const std::byte* data = tensor.bytes.data();
    if (reinterpret_cast<uintptr_t>(data) % alignof(T) != 0) {
      std::byte* copy = own(tensor.bytes.size());
      std::memcpy(copy, data, tensor.bytes.size());
      data = copy;
    }
    return reinterpret_cast<const T*>(data);
  }
  std::byte* own(size_t bytes) {
    out_.owned.push_back(std::make_unique_for_overwrite<std::byte[]>(bytes));
    return out_.owned.back().get();
  }

  const Checkpoint& checkpoint_;
  const WeightOverride override_;
  const std::function<void(double)>& progress_;
  double total_bytes_ = 0;
  double done_bytes_ = 0;
  DecoderWeights out_;
};

Result<const RawTensor*> Loader::find(const std::string& name) const {
  const RawTensor* tensor = checkpoint_.find(name);
  if (tensor == nullptr) {
    return Status(StatusCode::kNotFound,
                  checkpoint_.dir().string() + ": tensor " + name + " is missing");
  }
  return tensor;
}

Status Loader::load_vector(const std::string& name, std::vector<float>& to) {
  FORERUN_ASSIGN_OR_RETURN(const RawTensor* tensor, find(name));
  to.resize(static_cast<size_t>(tensor->shape[0]));
  FORERUN_RETURN_IF_ERROR(check_float(*tensor));
  widen(*tensor, 0, tensor->shape[0], to.data());
  done(*tensor);
  return {};
}

void Loader::convert(int64_t rows, int64_t in, const FillRows& fill, LinearWeight& to) {
  const auto count = static_cast<size_t>(rows * in);
  if (override_ == WeightOverride::kInt8) {
    to = LinearWeight::quantize_int8(rows, in, fill);
    return;
  }
  if (override_ == WeightOverride::kF32) {
    auto* values = reinterpret_cast<float*>(own(count * sizeof(float)));
    fill(0, MatrixView<float>(values, {rows, in}));
    to = LinearWeight::view(MatrixView<const float>(values, {rows, in}));
    return;
  }
  auto* narrow = reinterpret_cast<bf16*>(own(count * sizeof(bf16)));
  constexpr int64_t kPortion = 64;  // rows widened at a time
  std::vector<float> wide(static_cast<size_t>(std::min(kPortion, rows) * in));
  for (int64_t first = 0; first < rows; first += kPortion) {
    const int64_t portion = std::min(kPortion, rows - first);
    fill(first, MatrixView<float>(wide.data(), {portion, in}));
    for (int64_t i = 0; i < portion * in; ++i) {
      narrow[first * in + i] = to_bf16(wide[static_cast<size_t>(i)]);
    }
  }
  to = LinearWeight::view(MatrixView<const bf16>(narrow, {rows, in}));
}

Status Loader::load_plain(const RawTensor& tensor, int64_t rows, LinearWeight& to) {
  FORERUN_RETURN_IF_ERROR(check_float(tensor));
  const int64_t in = tensor.shape[1];
  const bool in_place = override_ == WeightOverride::kAsStored ||
                        (override_ == WeightOverride::kBf16 && tensor.dtype == DType::kBf16) ||
                        (override_ == WeightOverride::kF32 && tensor.dtype == DType::kF32);
  if (!in_place) {
    convert(
        rows, in,
        [&](int64_t first, MatrixView<float> w) { widen(tensor, first * in, w.size(), w.data()); },
        to);
    checkpoint_.release_pages(tensor);
    return {};
  }
  if (tensor.dtype == DType::kF32) {
    to = LinearWeight::view(MatrixView<const float>(elements<float>(tensor), {rows, in}));
  } else if (tensor.dtype == DType::kBf16) {
    to = LinearWeight::view(MatrixView<const bf16>(elements<bf16>(tensor), {rows, in}));
  } else {
    to = LinearWeight::view(MatrixView<const f16>(elements<f16>(tensor), {rows, in}));
  }
  checkpoint_.prefetch_pages(tensor);
  return {};
}

Status Loader::load_awq(const AwqTensors& awq, LinearWeight& to) {
  const int64_t groups = awq.in_features / awq.group_size;
  std::vector<float> scales(static_cast<size_t>(groups * awq.out_features));
  FORERUN_RETURN_IF_ERROR(check_float(*awq.scales));
  widen(*awq.scales, 0, groups * awq.out_features, scales.data());
  const size_t owned_before = out_.owned.size();
  LinearWeight repacked = LinearWeight::from_awq(
      MatrixView<const int32_t>(elements<int32_t>(*awq.qweight),
                                {awq.in_features, awq.out_features / 8}),
      MatrixView<const int32_t>(elements<int32_t>(*awq.qzeros), {groups, awq.out_features / 8}),
      MatrixView<const float>(scales.data(), {groups, awq.out_features}), awq.group_size);
  out_.owned.resize(owned_before);  // aligned copies of the sources, if any, are done with
  for (const RawTensor* source : {awq.qweight, awq.qzeros, awq.scales}) {
    checkpoint_.release_pages(*source);
    done(*source);
  }
  if (override_ == WeightOverride::kAsStored) {
    to = std::move(repacked);
    return {};
  }
  convert(
      awq.out_features, awq.in_features,
      [&repacked](int64_t first, MatrixView<float> w) { repacked.dequantize(first, w); }, to);
  return {};
}

Status Loader::load_linear(const std::string& module, LinearWeight& to) {
  if (checkpoint_.config().quantization.kind == QuantizationConfig::Kind::kAwq) {
    auto awq = find_awq_tensors(checkpoint_, module);
    if (awq.ok()) return load_awq(*awq, to).with_context(module);
    if (awq.status().code() != StatusCode::kNotFound) return awq.status();
  }
  FORERUN_ASSIGN_OR_RETURN(const RawTensor* tensor, find(module + ".weight"));
  FORERUN_RETURN_IF_ERROR(load_plain(*tensor, tensor->shape[0], to));
  done(*tensor);
  return {};
}

Status Loader::load_layer(int32_t layer_idx, LayerWeights& layer) {
  const ModelConfig& config = checkpoint_.config();
  const std::string prefix = "model.layers." + std::to_string(layer_idx) + ".";
  const std::string attention = prefix + "self_attn.";
  const std::string mlp = prefix + "mlp.";
  FORERUN_RETURN_IF_ERROR(load_vector(prefix + "input_layernorm.weight", layer.input_norm));
  FORERUN_RETURN_IF_ERROR(
      load_vector(prefix + "post_attention_layernorm.weight", layer.post_attention_norm));
  const std::pair<std::string, LinearWeight*> modules[] = {
      {attention + "q_proj", &layer.q}, {attention + "k_proj", &layer.k},
      {attention + "v_proj", &layer.v}, {attention + "o_proj", &layer.o},
      {mlp + "gate_proj", &layer.gate}, {mlp + "up_proj", &layer.up},
      {mlp + "down_proj", &layer.down}};
  for (const auto& module : modules) {
    FORERUN_RETURN_IF_ERROR(load_linear(module.first, *module.second));
  }
  if (config.qkv_bias) {
    FORERUN_RETURN_IF_ERROR(load_vector(attention + "q_proj.bias", layer.q_bias));
    FORERUN_RETURN_IF_ERROR(load_vector(attention + "k_proj.bias", layer.k_bias));
    FORERUN_RETURN_IF_ERROR(load_vector(attention + "v_proj.bias", layer.v_bias));
  }
  if (config.o_bias) FORERUN_RETURN_IF_ERROR(load_vector(attention + "o_proj.bias", layer.o_bias));
  if (config.mlp_bias) {
    FORERUN_RETURN_IF_ERROR(load_vector(mlp + "gate_proj.bias", layer.gate_bias));
    FORERUN_RETURN_IF_ERROR(load_vector(mlp + "up_proj.bias", layer.up_bias));
    FORERUN_RETURN_IF_ERROR(load_vector(mlp + "down_proj.bias", layer.down_bias));
  }
  if (config.qk_norm) {
    FORERUN_RETURN_IF_ERROR(load_vector(attention + "q_norm.weight", layer.q_norm));
    FORERUN_RETURN_IF_ERROR(load_vector(attention + "k_norm.weight", layer.k_norm));
  }
  return {};
}

Status Loader::load_embedding(const RawTensor& tensor) {
  FORERUN_RETURN_IF_ERROR(check_float(tensor));
  const std::array<int64_t, 2> shape{tensor.shape[0], tensor.shape[1]};
  if (tensor.dtype == DType::kF32) {
    out_.embedding = MatrixView<const float>(elements<float>(tensor), shape);
  } else if (tensor.dtype == DType::kBf16) {
    out_.embedding = MatrixView<const bf16>(elements<bf16>(tensor), shape);
  } else {
    out_.embedding = MatrixView<const f16>(elements<f16>(tensor), shape);
  }
  return {};
}

Result<DecoderWeights> Loader::run(int32_t live_vocab) {
  const ModelConfig& config = checkpoint_.config();
  FORERUN_ASSIGN_OR_RETURN(const RawTensor* embedding, find("model.embed_tokens.weight"));
  // The head first: converting it takes the most memory of all tensors for a moment.
  if (config.tied_embeddings) {
    FORERUN_RETURN_IF_ERROR(load_plain(*embedding, live_vocab, out_.head));
  } else {
    auto awq = config.quantization.kind == QuantizationConfig::Kind::kAwq
                   ? find_awq_tensors(checkpoint_, "lm_head")
                   : Result<AwqTensors>(Status(StatusCode::kNotFound, "not quantized"));
    if (awq.ok()) {
      FORERUN_RETURN_IF_ERROR(load_awq(*awq, out_.head).with_context("lm_head"));
    } else {
      FORERUN_ASSIGN_OR_RETURN(const RawTensor* head, find("lm_head.weight"));
      FORERUN_RETURN_IF_ERROR(load_plain(*head, live_vocab, out_.head));
      done(*head);
    }
  }
  FORERUN_RETURN_IF_ERROR(load_embedding(*embedding));
  done(*embedding);
  out_.layers.resize(static_cast<size_t>(config.num_layers));
  for (int32_t layer_idx = 0; layer_idx < config.num_layers; ++layer_idx) {
    FORERUN_RETURN_IF_ERROR(load_layer(layer_idx, out_.layers[static_cast<size_t>(layer_idx)]));
  }
  FORERUN_RETURN_IF_ERROR(load_vector("model.norm.weight", out_.final_norm));
  if (progress_) progress_(1.0);
  return std::move(out_);
}

}  // namespace

const char* weight_override_name(WeightOverride weights) {
  switch (weights) {
    case WeightOverride::kAsStored:
      return "as stored";
    case WeightOverride::kInt8:
      return "int8";
    case WeightOverride::kBf16:
      return "bf16";
    case WeightOverride::kF32:
      return "f32";
  }
  return "?";
}

Result<DecoderWeights> load_decoder_weights(const Checkpoint& checkpoint, WeightOverride weights,
                                            int32_t live_vocab,
                                            const std::function<void(double)>& progress) {
  return Loader(checkpoint, weights, progress).run(live_vocab);
}

}  // namespace forerun
