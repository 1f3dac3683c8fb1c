#include "model/decoder_weights.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <numeric>
#include <utility>

#include "base/dtype.h"
#include "base/status_macros.h"
#include "checkpoint/float_tensor.h"

namespace forerun {
namespace {

using FillRows = std::function<void(int64_t first, MatrixView<float> rows)>;

// The part of a [out][in] weight that a device holds.
struct Part {
  ShardRange out;
  ShardRange in;
};

class Loader {
 public:
  Loader(const Checkpoint& checkpoint, WeightOverride weights, Activation activation,
         const LayerRange& layers, const std::function<void(double)>& progress)
      : checkpoint_(checkpoint),
        layers_(layers),
        weights_(weights),
        pairs_(takes_bf16_pairs(activation)),
        progress_(progress) {
    for (const RawTensor& tensor : checkpoint.tensors()) {
      if (!layers.holds(tensor.name, checkpoint.config())) continue;
      total_bytes_ += static_cast<double>(tensor.bytes.size());
    }
  }

  Result<DecoderWeights> run(const DeviceShard& shard);

 private:
  Status load_layer(int32_t layer_idx, const DeviceShard& shard, LayerWeights& layer);
  Status load_vector(const std::string& name, std::vector<float>& to);
  Status load_vector(const std::string& name, ShardRange range, std::vector<float>& to);
  Status load_linear(const std::string& module, const Part& part, LinearWeight& to);
  Status load_plain(const RawTensor& tensor, const Part& part, LinearWeight& to);
  Status load_awq(const AwqTensors& awq, const Part& part, LinearWeight& to);
  Status load_embedding(const RawTensor& tensor);
  // Converts a weight to its overridden format; `fill(first, w)` writes rows from `first` on as
  // f32.
  void convert(int64_t rows, int64_t in, const FillRows& fill, LinearWeight& to);
  void done(const RawTensor& tensor) {
    done_bytes_ += static_cast<double>(tensor.bytes.size());
    if (progress_ && total_bytes_ > 0) progress_(std::min(1.0, done_bytes_ / total_bytes_));
  }
  // Rows and columns of a tensor of two dimensions where they lie, or an aligned copy of them.
  template <class T>
  MatrixView<const T> elements(const RawTensor& tensor, const Part& part) {
    const int64_t width = tensor.shape[1];
    const std::byte* data =
        tensor.bytes.data() + (part.out.begin * width + part.in.begin) * int64_t{sizeof(T)};
    const std::array<int64_t, 2> shape{part.out.size(), part.in.size()};
    if (reinterpret_cast<uintptr_t>(data) % alignof(T) == 0) {
      return {reinterpret_cast<const T*>(data), shape, width};
    }
    const size_t row_bytes = static_cast<size_t>(part.in.size()) * sizeof(T);
    std::byte* copy = own(static_cast<size_t>(part.out.size()) * row_bytes);
    for (int64_t row = 0; row < part.out.size(); ++row) {
      std::memcpy(copy + static_cast<size_t>(row) * row_bytes,
                  data + row * width * int64_t{sizeof(T)}, row_bytes);
    }
    return {reinterpret_cast<const T*>(copy), shape};
  }
  std::byte* own(size_t bytes) {
    out_.owned.push_back(std::make_unique_for_overwrite<std::byte[]>(bytes));
    return out_.owned.back().get();
  }

  const Checkpoint& checkpoint_;
  const LayerRange layers_;
  const WeightOverride weights_;
  WeightOverride override_ = WeightOverride::kAsStored;  // of the tensor that is being loaded
  const bool pairs_;                                     // bf16 is repacked
  const std::function<void(double)>& progress_;
  double total_bytes_ = 0;
  double done_bytes_ = 0;
  DecoderWeights out_;
};

Status Loader::load_vector(const std::string& name, std::vector<float>& to) {
  FORERUN_ASSIGN_OR_RETURN(const RawTensor* tensor, require_tensor(checkpoint_, name));
  return load_vector(name, {0, tensor->shape[0]}, to);
}

Status Loader::load_vector(const std::string& name, ShardRange range, std::vector<float>& to) {
  FORERUN_ASSIGN_OR_RETURN(const RawTensor* tensor, require_tensor(checkpoint_, name));
  to.resize(static_cast<size_t>(range.size()));
  FORERUN_RETURN_IF_ERROR(check_float(*tensor));
  widen(*tensor, range.begin, range.size(), to.data());
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
  const size_t owned_before = out_.owned.size();
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
  const MatrixView<const bf16> made(narrow, {rows, in});
  to = pairs_ ? LinearWeight::pair_bf16(made) : LinearWeight::view(made);
  if (pairs_) out_.owned.resize(owned_before);  // pairs are a copy
}

Status Loader::load_plain(const RawTensor& tensor, const Part& part, LinearWeight& to) {
  FORERUN_RETURN_IF_ERROR(check_float(tensor));
  const int64_t width = tensor.shape[1];
  const bool in_place = override_ == WeightOverride::kAsStored ||
                        (override_ == WeightOverride::kBf16 && tensor.dtype == DType::kBf16) ||
                        (override_ == WeightOverride::kF32 && tensor.dtype == DType::kF32);
  if (!in_place) {
    convert(
        part.out.size(), part.in.size(),
        [&](int64_t first, MatrixView<float> w) {
          for (int64_t row = 0; row < w.dim(0); ++row) {
            widen(tensor, (part.out.begin + first + row) * width + part.in.begin, w.dim(1),
                  w.row(row));
          }
        },
        to);
    return {};
  }
  if (tensor.dtype == DType::kBf16 && pairs_) {
    const size_t owned_before = out_.owned.size();
    to = LinearWeight::pair_bf16(elements<bf16>(tensor, part));
    out_.owned.resize(owned_before);  // an aligned copy of the source, if any, is done with
    checkpoint_.release_pages(tensor);
    return {};
  }
  if (tensor.dtype == DType::kF32) {
    to = LinearWeight::view(elements<float>(tensor, part));
  } else if (tensor.dtype == DType::kBf16) {
    to = LinearWeight::view(elements<bf16>(tensor, part));
  } else {
    to = LinearWeight::view(elements<f16>(tensor, part));
  }
  checkpoint_.prefetch_pages(tensor);
  return {};
}

Status Loader::load_awq(const AwqTensors& awq, const Part& part, LinearWeight& to) {
  FORERUN_RETURN_IF_ERROR(check_float(*awq.scales));
  // The part's inputs may begin or end within a group: its scale is then repeated for smaller
  // groups.
  const int64_t group = std::gcd(awq.group_size, std::gcd(part.in.begin, part.in.size()));
  const int64_t groups = group == 0 ? 0 : part.in.size() / group;
  const int64_t out = part.out.size();
  std::vector<float> scales(static_cast<size_t>(groups * out));
  std::vector<int32_t> zeros(static_cast<size_t>(groups * out / 8));
  const size_t owned_before = out_.owned.size();
  const MatrixView<const int32_t> stored_zeros = elements<int32_t>(
      *awq.qzeros, {{0, awq.in_features / awq.group_size}, {0, awq.out_features / 8}});
  for (int64_t index = 0; index < groups; ++index) {
    const int64_t stored = (part.in.begin + index * group) / awq.group_size;
    widen(*awq.scales, stored * awq.out_features + part.out.begin, out,
          scales.data() + index * out);
    std::copy_n(stored_zeros.row(stored) + part.out.begin / 8, out / 8,
                zeros.data() + index * out / 8);
  }
  LinearWeight repacked = LinearWeight::from_awq(
      elements<int32_t>(*awq.qweight, {part.in, {part.out.begin / 8, part.out.end / 8}}),
      {zeros.data(), {groups, out / 8}}, {scales.data(), {groups, out}}, group);
  out_.owned.resize(owned_before);  // aligned copies of the sources, if any, are done with
  for (const RawTensor* source : {awq.qweight, awq.qzeros, awq.scales}) {
    checkpoint_.release_pages(*source);
    done(*source);
  }
  // An int4 head does not grow to int8.
  if (override_ == WeightOverride::kAsStored || weights_ == WeightOverride::kInt8Head) {
    to = std::move(repacked);
    return {};
  }
  convert(
      out, part.in.size(),
      [&repacked](int64_t first, MatrixView<float> w) { repacked.dequantize(first, w); }, to);
  return {};
}

Status Loader::load_linear(const std::string& module, const Part& part, LinearWeight& to) {
  if (part.out.size() == 0 || part.in.size() == 0) return {};  // the part has none of it
  if (checkpoint_.config().quantization.kind == QuantizationConfig::Kind::kAwq) {
    auto awq = find_awq_tensors(checkpoint_, module);
    if (awq.ok()) return load_awq(*awq, part, to).with_context(module);
    if (awq.status().code() != StatusCode::kNotFound) return awq.status();
  }
  FORERUN_ASSIGN_OR_RETURN(const RawTensor* tensor,
                           require_tensor(checkpoint_, module + ".weight"));
  FORERUN_RETURN_IF_ERROR(load_plain(*tensor, part, to));
  done(*tensor);
  return {};
}

Status Loader::load_layer(int32_t layer_idx, const DeviceShard& shard, LayerWeights& layer) {
  const ModelConfig& config = checkpoint_.config();
  const std::string prefix = "model.layers." + std::to_string(layer_idx) + ".";
  const std::string attention = prefix + "self_attn.";
  const std::string mlp = prefix + "mlp.";
  FORERUN_RETURN_IF_ERROR(load_vector(prefix + "input_layernorm.weight", layer.input_norm));
  FORERUN_RETURN_IF_ERROR(
      load_vector(prefix + "post_attention_layernorm.weight", layer.post_attention_norm));
  const ShardRange hidden{0, config.hidden_size};
  const ShardRange q{shard.heads.begin * config.head_dim, shard.heads.end * config.head_dim};
  const ShardRange kv{shard.kv_heads.begin * config.head_dim, shard.kv_heads.end * config.head_dim};
  FORERUN_RETURN_IF_ERROR(load_linear(attention + "q_proj", {q, hidden}, layer.q));
  FORERUN_RETURN_IF_ERROR(load_linear(attention + "k_proj", {kv, hidden}, layer.k));
  FORERUN_RETURN_IF_ERROR(load_linear(attention + "v_proj", {kv, hidden}, layer.v));
  FORERUN_RETURN_IF_ERROR(load_linear(attention + "o_proj", {hidden, q}, layer.o));
  FORERUN_RETURN_IF_ERROR(load_linear(mlp + "gate_proj", {shard.mlp, hidden}, layer.gate));
  FORERUN_RETURN_IF_ERROR(load_linear(mlp + "up_proj", {shard.mlp, hidden}, layer.up));
  FORERUN_RETURN_IF_ERROR(load_linear(mlp + "down_proj", {hidden, shard.mlp}, layer.down));
  if (config.qkv_bias) {
    FORERUN_RETURN_IF_ERROR(load_vector(attention + "q_proj.bias", q, layer.q_bias));
    FORERUN_RETURN_IF_ERROR(load_vector(attention + "k_proj.bias", kv, layer.k_bias));
    FORERUN_RETURN_IF_ERROR(load_vector(attention + "v_proj.bias", kv, layer.v_bias));
  }
  if (config.o_bias) FORERUN_RETURN_IF_ERROR(load_vector(attention + "o_proj.bias", layer.o_bias));
  if (config.mlp_bias) {
    FORERUN_RETURN_IF_ERROR(load_vector(mlp + "gate_proj.bias", shard.mlp, layer.gate_bias));
    FORERUN_RETURN_IF_ERROR(load_vector(mlp + "up_proj.bias", shard.mlp, layer.up_bias));
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
  const Part all{{0, tensor.shape[0]}, {0, tensor.shape[1]}};
  if (tensor.dtype == DType::kF32) {
    out_.embedding = elements<float>(tensor, all);
  } else if (tensor.dtype == DType::kBf16) {
    out_.embedding = elements<bf16>(tensor, all);
  } else {
    out_.embedding = elements<f16>(tensor, all);
  }
  return {};
}

Result<DecoderWeights> Loader::run(const DeviceShard& shard) {
  const ModelConfig& config = checkpoint_.config();
  FORERUN_ASSIGN_OR_RETURN(const RawTensor* embedding,
                           require_tensor(checkpoint_, "model.embed_tokens.weight"));
  Part head{shard.vocab, {0, config.hidden_size}};
  if (config.quantization.kind == QuantizationConfig::Kind::kAwq && shard.vocab.size() > 0) {
    head.out.end = std::min<int64_t>((head.out.end + 7) / 8 * 8, config.vocab_size);
  }
  // The head first: converting it takes the most memory of all tensors for a moment.
  override_ = head_override(weights_);
  if (layers_.heads && !config.tied_embeddings) {
    FORERUN_RETURN_IF_ERROR(load_linear("lm_head", head, out_.head));
  } else if (layers_.heads && shard.vocab.size() > 0) {
    FORERUN_RETURN_IF_ERROR(load_plain(*embedding, head, out_.head));
  }
  if (layers_.embeds) FORERUN_RETURN_IF_ERROR(load_embedding(*embedding));
  if (layers_.holds(embedding->name, config)) done(*embedding);
  override_ = layers_override(weights_);
  out_.layers.resize(static_cast<size_t>(layers_.size()));
  for (int32_t layer_idx = 0; layer_idx < layers_.size(); ++layer_idx) {
    FORERUN_RETURN_IF_ERROR(
        load_layer(layers_.begin + layer_idx, shard, out_.layers[static_cast<size_t>(layer_idx)]));
  }
  if (layers_.heads) {
    FORERUN_RETURN_IF_ERROR(load_vector("model.norm.weight", out_.final_norm));
  }
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
    case WeightOverride::kInt8Head:
      return "int8 head";
    case WeightOverride::kInt4Head:
      return "int4 head";
  }
  return "?";
}

Result<DecoderWeights> load_decoder_weights(const Checkpoint& checkpoint, WeightOverride weights,
                                            Activation activation, const DeviceShard& shard,
                                            const LayerRange& layers,
                                            const std::function<void(double)>& progress) {
  return Loader(checkpoint, weights, activation, layers, progress).run(shard);
}

}  // namespace forerun
