#include "model/decoder_weights.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <numeric>
#include <optional>
#include <utility>

#include "base/dtype.h"
#include "base/log.h"
#include "base/status_macros.h"
#include "checkpoint/float_tensor.h"
#include "checkpoint/layouts/weight_parts.h"
#include "checkpoint/mapped_file.h"
#include "checkpoint/read_ahead.h"
#include "model/held_tensors.h"
#include "model/requantize.h"
#include "model/weight_packing.h"

namespace forerun {
namespace {

using Part = ModulePart;

// The distance by which reading runs ahead of packing. CPUs pack a gigabyte or more per second and
// disks read as fast, so this is a tenth of a second of work.
constexpr int64_t kReadAheadBytes = 128 << 20;

// Returns the destination of a layer's norm.
std::vector<float>* norm_of(LayerWeights& layer, ModuleKind kind) {
  switch (kind) {
    case ModuleKind::kInputNorm:
      return &layer.input_norm;
    case ModuleKind::kPostAttentionNorm:
      return &layer.post_attention_norm;
    case ModuleKind::kQNorm:
      return &layer.q_norm;
    case ModuleKind::kKNorm:
      return &layer.k_norm;
    case ModuleKind::kHiddenNorm:
      return &layer.hidden_norm;
    default:
      return nullptr;
  }
}

struct LinearPlace {
  LinearWeight* weight;
  std::vector<float>* bias;
};

LinearPlace linear_of(LayerWeights& layer, ModuleKind kind) {
  switch (kind) {
    case ModuleKind::kQ:
      return {&layer.q, &layer.q_bias};
    case ModuleKind::kK:
      return {&layer.k, &layer.k_bias};
    case ModuleKind::kV:
      return {&layer.v, &layer.v_bias};
    case ModuleKind::kO:
      return {&layer.o, &layer.o_bias};
    case ModuleKind::kGate:
      return {&layer.gate, &layer.gate_bias};
    case ModuleKind::kUp:
      return {&layer.up, &layer.up_bias};
    case ModuleKind::kDown:
      return {&layer.down, &layer.down_bias};
    default:
      return {nullptr, nullptr};
  }
}

class Loader {
 public:
  Loader(const Checkpoint& checkpoint, WeightOverride weights, Activation activation,
         const LayerRange& layers, const std::function<void(double)>& progress,
         const Checkpoint* target)
      : checkpoint_(checkpoint),
        target_(target),
        layers_(layers),
        weights_(weights),
        activation_(activation),
        pairs_(takes_bf16_pairs(activation)),
        progress_(progress) {
    total_bytes_ = static_cast<double>(held_bytes(checkpoint, layers));
  }

  Result<DecoderWeights> run(const DeviceShard& shard);

 private:
  // Returns the bytes that are read from beginning to end, in loading order.
  std::vector<ReadAhead::Bytes> copied_tensors() const;
  Status load_module(const Module& module, const DeviceShard& shard);
  Status load_vector(const RawTensor& tensor, ShardRange range, std::vector<float>& to);
  Status load_linear(ModuleId module, const Part& part, LinearWeight& to);
  Status load_plain(const RawTensor& tensor, const Part& part, LinearWeight& to);
  // Loads a module outside of the layers.
  Status load_outer_module(const Module& module, const Part& part);
  Status load_embedding(const RawTensor& tensor);
  // Return the tensors of the embedding and of the LM head, the checkpoint's own or the target's.
  Result<const RawTensor*> embedding_tensor() const;
  Result<const RawTensor*> head_tensor() const;
  // Remembers a weight that becomes f32 although its description has a kernel format.
  void note_widened(const RawTensor& tensor, const std::string& why);
  // Converts a weight to its overridden format.
  Status convert(int64_t rows, int64_t in, const FillRows& fill, LinearWeight& to);
  // Returns whether kernels read the weight's elements in their stored format.
  static bool keeps_elements(const RawTensor& tensor, WeightOverride how) {
    if (tensor.blocks != nullptr || tensor.parts != nullptr) return false;
    const std::optional<WeightFormat> format = override_format(how);
    return !format || (format == WeightFormat::kBf16 && tensor.dtype == DType::kBf16) ||
           (format == WeightFormat::kF16 && tensor.dtype == DType::kF16) ||
           (format == WeightFormat::kF32 && tensor.dtype == DType::kF32);
  }
  // Returns whether kernels read the elements in place in the file.
  bool is_viewed(const RawTensor& tensor, WeightOverride how) const {
    return keeps_elements(tensor, how) && tensor.is_plain() &&
           !(tensor.dtype == DType::kBf16 && pairs_);
  }
  void read_up_to(const RawTensor& tensor) {
    if (!ahead_) return;
    if (tensor.parts == nullptr) return ahead_->done(tensor.bytes);
    for (const ModuleTensor& each : tensor.parts->tensors()) ahead_->done(each.tensor->bytes);
  }
  void done(const RawTensor& tensor) {
    read_up_to(tensor);
    done_bytes_ += static_cast<double>(stored_bytes(tensor));
    if (progress_ && total_bytes_ > 0) progress_(std::min(1.0, done_bytes_ / total_bytes_));
  }
  // Returns rows and columns of a two-dimensional tensor in place, or an aligned copy of them in
  // the order of the weight's rows.
  template <class T>
  MatrixView<const T> elements(const RawTensor& tensor, const Part& part) {
    const int64_t width = tensor.shape[1];
    const std::byte* data =
        tensor.bytes.data() + (part.out.begin * width + part.in.begin) * int64_t{sizeof(T)};
    const std::array<int64_t, 2> shape{part.out.size(), part.in.size()};
    if (reinterpret_cast<uintptr_t>(data) % alignof(T) == 0 && tensor.is_plain()) {
      return {reinterpret_cast<const T*>(data), shape, width};
    }
    const size_t row_bytes = static_cast<size_t>(part.in.size()) * sizeof(T);
    std::byte* copy = own(static_cast<size_t>(part.out.size()) * row_bytes);
    for (int64_t row = 0; row < part.out.size(); ++row) {
      std::memcpy(
          copy + static_cast<size_t>(row) * row_bytes,
          tensor.bytes.data() + (tensor.stored_row(part.out.begin + row) * width + part.in.begin) *
                                    int64_t{sizeof(T)},
          row_bytes);
    }
    return {reinterpret_cast<const T*>(copy), shape};
  }
  std::byte* own(size_t bytes) {
    out_.owned.push_back(std::make_unique_for_overwrite<std::byte[]>(bytes));
    return out_.owned.back().get();
  }

  const Checkpoint& checkpoint_;
  const Checkpoint* const target_;  // target of an EAGLE-3 head
  const LayerRange layers_;
  const WeightOverride weights_;
  const Activation activation_;
  WeightOverride override_ = WeightOverride::kAsStored;  // override of the current tensor
  const bool pairs_;                                     // bf16 is repacked
  const std::function<void(double)>& progress_;
  double total_bytes_ = 0;
  double done_bytes_ = 0;
  DecoderWeights out_;
  std::optional<ReadAhead> ahead_;
  std::string first_widened_;  // the tensor, and why it is not in the planned format
  int64_t num_widened_ = 0;
};

void Loader::note_widened(const RawTensor& tensor, const std::string& why) {
  if (num_widened_++ == 0) first_widened_ = "tensor " + std::string(tensor.name) + ": " + why;
}

std::vector<ReadAhead::Bytes> Loader::copied_tensors() const {
  std::vector<ReadAhead::Bytes> copied;
  size_t heads = 0;  // the head is loaded first
  const ModelConfig& config = checkpoint_.config();
  for (const Module& module : decoder_modules(config)) {
    const bool is_embedding = module.type == ModuleType::kEmbedding;
    if (!layers_.holds(module.id, config) || module.type == ModuleType::kNorm) continue;
    if (is_embedding && !(config.tied_embeddings && layers_.heads)) continue;  // looked up in place
    const bool is_head = is_embedding || module.type == ModuleType::kHead;
    const WeightOverride how = is_head ? head_override(weights_) : layers_override(weights_);
    for (const ModuleTensor& each : checkpoint_.tensors_of(module.id)) {
      if (each.tensor == checkpoint_.weight(module.id) && is_viewed(*each.tensor, how)) continue;
      const auto at =
          is_head ? copied.begin() + static_cast<std::ptrdiff_t>(heads++) : copied.end();
      copied.insert(at, each.tensor->bytes);
    }
  }
  return copied;
}

Status Loader::load_vector(const RawTensor& tensor, ShardRange range, std::vector<float>& to) {
  to.resize(static_cast<size_t>(range.size()));
  FORERUN_RETURN_IF_ERROR(check_readable(tensor));
  widen(tensor, range.begin, range.size(), to.data());
  done(tensor);
  return {};
}

Status Loader::convert(int64_t rows, int64_t in, const FillRows& fill, LinearWeight& to) {
  // Weights that no kernel reads as they are stored keep their values as f32, and so does a row
  // with blocks that devices divide.
  WeightFormat format = override_format(override_).value_or(WeightFormat::kF32);
  if (in % input_multiple(format) != 0) format = WeightFormat::kF32;
  const size_t owned_before = out_.owned.size();
  FORERUN_ASSIGN_OR_RETURN(to, requantize(format, rows, in, fill, out_.owned));
  if (format == WeightFormat::kBf16 && pairs_) {
    const auto* made = reinterpret_cast<const bf16*>(out_.owned.back().get());
    to = LinearWeight::pair_bf16(MatrixView<const bf16>(made, {rows, in}));
    out_.owned.resize(owned_before);  // pairs are a copy
  }
  return Status();
}

Status Loader::load_plain(const RawTensor& tensor, const Part& part, LinearWeight& to) {
  FORERUN_RETURN_IF_ERROR(check_readable(tensor));
  const std::optional<WeightFormat> format = override_format(override_);
  if (packed_bytes(tensor, part) && (!format || format == kernel_format(tensor))) {
    Result<LinearWeight> packed = pack_as_stored(tensor, part);
    if (!packed.ok()) return packed.status().with_context("tensor " + std::string(tensor.name));
    to = std::move(*packed);
    if (to.format() != WeightFormat::kFp8) checkpoint_.release_pages(tensor);
    return {};
  }
  if (format ? part.in.size() % input_multiple(*format) != 0 : kernel_format(tensor).has_value()) {
    note_widened(tensor, "devices divide its inputs within a block or group");
  }
  const int64_t width = tensor.shape[1];
  if (!keeps_elements(tensor, override_)) {
    const auto fill = [&](int64_t first, MatrixView<float> w) {
      for (int64_t row = 0; row < w.dim(0); ++row) {
        widen(tensor, (part.out.begin + first + row) * width + part.in.begin, w.dim(1), w.row(row));
      }
    };
    FORERUN_RETURN_IF_ERROR(convert(part.out.size(), part.in.size(), fill, to)
                                .with_context("tensor " + std::string(tensor.name)));
    if (tensor.parts != nullptr) checkpoint_.release_pages(tensor);
    return {};
  }
  if (tensor.dtype == DType::kBf16 && pairs_) {
    const size_t owned_before = out_.owned.size();
    to = LinearWeight::pair_bf16(elements<bf16>(tensor, part));
    out_.owned.resize(owned_before);  // drops an aligned copy of the source, if any
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

Status Loader::load_linear(ModuleId module, const Part& part, LinearWeight& to) {
  if (part.out.size() == 0 || part.in.size() == 0) return {};  // the part has no share of it
  FORERUN_ASSIGN_OR_RETURN(const RawTensor* tensor, require_weight(checkpoint_, module));
  FORERUN_RETURN_IF_ERROR(load_plain(*tensor, part, to));
  done(*tensor);
  return {};
}

Status Loader::load_module(const Module& module, const DeviceShard& shard) {
  const Part part = module_part(module, shard, checkpoint_.config());
  if (module.id.layer < 0) return load_outer_module(module, part);
  LayerWeights& layer = out_.layers[static_cast<size_t>(module.id.layer - layers_.begin)];
  if (module.type == ModuleType::kNorm) {
    FORERUN_ASSIGN_OR_RETURN(const RawTensor* tensor, require_weight(checkpoint_, module.id));
    return load_vector(*tensor, part.out, *norm_of(layer, module.id.kind));
  }
  const LinearPlace to = linear_of(layer, module.id.kind);
  FORERUN_RETURN_IF_ERROR(load_linear(module.id, part, *to.weight));
  if (!module.has_bias) return {};
  FORERUN_ASSIGN_OR_RETURN(const RawTensor* bias, require_bias(checkpoint_, module.id));
  return load_vector(*bias, part.out, *to.bias);
}

Status Loader::load_outer_module(const Module& module, const Part& part) {
  if (module.id.kind == ModuleKind::kTapProjection) {
    return load_linear(module.id, part, out_.tap_projection);
  }
  if (module.type != ModuleType::kNorm) return {};  // embedding and head: see run()
  FORERUN_ASSIGN_OR_RETURN(const RawTensor* tensor, require_weight(checkpoint_, module.id));
  if (module.id.kind == ModuleKind::kFinalNorm) {
    return load_vector(*tensor, part.out, out_.final_norm);
  }
  std::vector<float> norm;
  FORERUN_RETURN_IF_ERROR(load_vector(*tensor, part.out, norm));
  out_.tap_norms.insert(out_.tap_norms.end(), norm.begin(), norm.end());
  return {};
}

Result<const RawTensor*> Loader::embedding_tensor() const {
  const auto& eagle3 = checkpoint_.config().eagle3;
  return require_weight(eagle3 && !eagle3->own_embedding ? *target_ : checkpoint_,
                        {ModuleKind::kEmbedding});
}

Result<const RawTensor*> Loader::head_tensor() const {
  const auto& eagle3 = checkpoint_.config().eagle3;
  const Checkpoint& source = eagle3 && !eagle3->own_head ? *target_ : checkpoint_;
  const bool is_tied = source.config().tied_embeddings;
  return require_weight(source, {is_tied ? ModuleKind::kEmbedding : ModuleKind::kHead});
}

Status Loader::load_embedding(const RawTensor& tensor) {
  FORERUN_RETURN_IF_ERROR(check_readable(tensor));
  const Part all{{0, tensor.shape[0]}, {0, tensor.shape[1]}};
  if (tensor.blocks != nullptr) {
    const int64_t row_blocks = tensor.shape[1] / tensor.blocks->weights;
    out_.embedding = BlockTable{.data = tensor.bytes.data(),
                                .row_bytes = row_blocks * tensor.blocks->bytes,
                                .row_blocks = row_blocks,
                                .decode = tensor.blocks->decode};
  } else if (tensor.dtype == DType::kF32) {
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
  FORERUN_ASSIGN_OR_RETURN(const RawTensor* embedding, embedding_tensor());
  const Part head{shard.vocab, {0, config.hidden_size}};
  // Loads the head first, because converting it takes the most memory of all tensors for a moment.
  ahead_.emplace(copied_tensors(), kReadAheadBytes, read_mapped_pages);
  override_ = head_override(weights_);
  if (layers_.heads && shard.vocab.size() > 0) {
    FORERUN_ASSIGN_OR_RETURN(const RawTensor* tensor, head_tensor());
    FORERUN_RETURN_IF_ERROR(load_plain(*tensor, head, out_.head));
    if (tensor != embedding) done(*tensor);
  }
  if (layers_.embeds) {
    const bool is_in_head = layers_.heads && shard.has_all_vocab && *head_tensor() == embedding &&
                            packs_embedding(*embedding, head_override(weights_), activation_);
    if (is_in_head) {
      out_.embedding = PackedTable{out_.head};
    } else {
      FORERUN_RETURN_IF_ERROR(load_embedding(*embedding));
    }
  }
  if (layers_.holds({ModuleKind::kEmbedding}, config)) done(*embedding);
  override_ = layers_override(weights_);
  out_.layers.resize(static_cast<size_t>(layers_.size()));
  for (const Module& module : decoder_modules(config)) {
    if (layers_.holds(module.id, config)) FORERUN_RETURN_IF_ERROR(load_module(module, shard));
  }
  if (num_widened_ > 0) {
    const int64_t others = num_widened_ - 1;
    log_line(LogLevel::kWarning,
             first_widened_ + "; it is read as f32" +
                 (others > 0 ? ", and so are " + std::to_string(others) + " others" : ""));
  }
  if (progress_) progress_(1.0);
  return std::move(out_);
}

}  // namespace

Result<DecoderWeights> load_decoder_weights(const Checkpoint& checkpoint, WeightOverride weights,
                                            Activation activation, const DeviceShard& shard,
                                            const LayerRange& layers,
                                            const std::function<void(double)>& progress,
                                            const Checkpoint* target) {
  return Loader(checkpoint, weights, activation, layers, progress, target).run(shard);
}

}  // namespace forerun
