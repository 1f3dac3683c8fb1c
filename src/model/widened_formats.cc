#include "model/widened_formats.h"

#include <algorithm>
#include <span>
#include <utility>

#include "kernels/linear/formats/weight_formats.h"
#include "kernels/linear/linear.h"
#include "model/requantize.h"
#include "model/weight_packing.h"

namespace forerun {
namespace {

constexpr auto kGpuInt4 = cuda::LinearFormat::kInt4Group128;
constexpr int64_t kGpuInt8Group = cuda::unit_inputs(cuda::LinearFormat::kInt8Group64);

std::string megabytes(int64_t bytes) {
  return std::to_string((bytes + 500'000) / 1'000'000) + " MB";
}

// Returns the kernel format that holds the stored values unchanged; unset if there is none.
std::optional<WeightFormat> format_as_stored(const RawTensor& tensor) {
  if (tensor.blocks != nullptr || tensor.parts != nullptr) return kernel_format(tensor);
  switch (tensor.dtype) {
    case DType::kBf16:
      return WeightFormat::kBf16;
    case DType::kF16:
      return WeightFormat::kF16;
    default:
      return WeightFormat::kF32;
  }
}

class Reads {
 public:
  Reads(const Checkpoint& checkpoint, WeightOverride weights)
      : checkpoint_(checkpoint), weights_(weights) {}

  // `source` is the module that stores the weight.
  ModuleRead read(const Module& module, ModuleId source, bool on_gpus) const {
    ModuleRead made;
    made.module = module;
    made.is_tied_head = source != module.id;
    const RawTensor* const tensor = checkpoint_.weight(source);
    if (tensor == nullptr) return made;  // open() has checked that it exists
    made.stored = format_name(*tensor);
    made.stored_bytes = stored_bytes(*tensor);
    if (module.type == ModuleType::kNorm) {
      read_as(WeightFormat::kF32, *tensor, made);
    } else if (on_gpus) {
      read_on_gpus(*tensor, made);
    } else if (module.type == ModuleType::kEmbedding) {
      made.read_as = made.stored;  // rows are looked up in the file
      made.read_bytes = made.stored_bytes;
    } else {
      read_on_processors(*tensor, made);
    }
    return made;
  }

 private:
  void read_as(WeightFormat format, const RawTensor& tensor, ModuleRead& made) const {
    const int64_t columns = made.module.type == ModuleType::kNorm ? 1 : made.module.in;
    made.read_as = weight_format_name(format);
    made.read_bytes = weight_bytes(format, made.module.out, columns);
    if (format == format_as_stored(tensor)) {
      const bool is_packed = tensor.blocks != nullptr || tensor.parts != nullptr;
      if (is_packed) made.read_bytes = packed_bytes(tensor).value_or(made.read_bytes);
      const bool is_larger = 10 * made.read_bytes > 11 * made.stored_bytes;
      if (tensor.parts != nullptr && is_larger) made.change = WeightChange::kEnlarged;
      return;
    }
    made.change = format == WeightFormat::kF32 ? WeightChange::kWidened : WeightChange::kRounded;
    if (made.change == WeightChange::kRounded) made.rounded_to = format;
  }

  void read_on_processors(const RawTensor& tensor, ModuleRead& made) const {
    const bool is_head = made.module.type == ModuleType::kHead;
    const auto rounded = override_format(is_head ? head_override(weights_) : weights_);
    const std::optional<WeightFormat> stored = format_as_stored(tensor);
    WeightFormat format = rounded.value_or(stored.value_or(WeightFormat::kF32));
    // Loaders round only rows of whole blocks.
    if (rounded && made.module.in % input_multiple(format) != 0) format = WeightFormat::kF32;
    read_as(format, tensor, made);
    const bool in_place = made.is_tied_head && format == stored && tensor.is_plain() &&
                          !(format == WeightFormat::kBf16 && takes_bf16_pairs(Activation::kBf16));
    if (in_place) made.read_bytes = 0;
  }

  void read_on_gpus(const RawTensor& tensor, ModuleRead& made) const {
    if (made.module.type == ModuleType::kEmbedding) {
      const auto looked_up = gpu_embedding_format(tensor);
      if (!looked_up) return read_as(WeightFormat::kBf16, tensor, made);
      made.read_as = weight_format_name(cuda::unit_format(*looked_up).stored);
      made.read_bytes = made.stored_bytes;
      return;
    }
    const std::optional<cuda::LinearFormat> format = gpu_format(tensor);
    if (format == kGpuInt4) {
      made.read_as = "int4";
      made.read_bytes = made.stored_bytes;
      return;
    }
    const bool is_head = made.module.type == ModuleType::kHead;
    if (is_head && weights_ == WeightOverride::kInt8Head && made.module.in % kGpuInt8Group == 0) {
      return round_groups("int8", 8, kGpuInt8Group, made);
    }
    if (is_head && weights_ == WeightOverride::kInt4Head &&
        made.module.in % cuda::unit_inputs(kGpuInt4) == 0) {
      return round_groups("int4", 4, cuda::unit_inputs(kGpuInt4), made);
    }
    if (!format || !stays_beside_others(made.module.id)) {
      return read_as(WeightFormat::kBf16, tensor, made);
    }
    const cuda::UnitFormat& unit = cuda::unit_format(*format);
    made.read_as = weight_format_name(unit.stored);
    made.read_bytes = (made.module.out + 31) / 32 * (made.module.in / unit.inputs) *
                      cuda::unit_bytes(unit.format);
  }

  // Returns whether all modules that GPUs read in the same launch also stay as they are stored: Q,
  // K and V in any formats, gate and up in the same.
  bool stays_beside_others(ModuleId id) const {
    const std::span<const ModuleKind> kinds = read_together(id.kind);
    std::vector<std::optional<cuda::LinearFormat>> formats;
    for (const ModuleKind kind : kinds) {
      const RawTensor* const tensor = checkpoint_.weight({kind, id.layer});
      formats.push_back(tensor == nullptr ? std::nullopt : gpu_format(*tensor));
    }
    const bool may_differ = kinds.size() == 3;
    return std::all_of(formats.begin(), formats.end(), [&](const auto& format) {
      return format && (may_differ || format == formats.front());
    });
  }

  static std::span<const ModuleKind> read_together(ModuleKind kind) {
    using enum ModuleKind;
    static constexpr ModuleKind kQkv[] = {kQ, kK, kV};
    static constexpr ModuleKind kGateUp[] = {kGate, kUp};
    if (kind == kQ || kind == kK || kind == kV) return kQkv;
    if (kind == kGate || kind == kUp) return kGateUp;
    return {};
  }

  // Each group has an f16 scale.
  void round_groups(const char* name, int64_t bits, int64_t group, ModuleRead& made) const {
    made.read_as = name;
    made.read_bytes = made.module.out * made.module.in * (group * bits + 16) / (8 * group);
    made.change = WeightChange::kRounded;
  }

  const Checkpoint& checkpoint_;
  const WeightOverride weights_;
};

}  // namespace

std::vector<ModuleRead> module_reads(const Checkpoint& checkpoint, const LayerRange& stage,
                                     WeightOverride weights, bool on_gpus) {
  const ModelConfig& config = checkpoint.config();
  const Reads reads(checkpoint, weights);
  std::vector<ModuleRead> all;
  for (const Module& module : decoder_modules(config)) {
    const bool is_embedding = module.type == ModuleType::kEmbedding;
    if (is_embedding ? stage.embeds : stage.holds(module.id, config)) {
      all.push_back(reads.read(module, module.id, on_gpus));
    }
  }
  if (config.tied_embeddings && stage.heads) {
    const ModuleId embedding{ModuleKind::kEmbedding};
    const Module head{.id = {ModuleKind::kHead},
                      .type = ModuleType::kHead,
                      .out = config.vocab_size,
                      .in = config.hidden_size,
                      .has_bias = false,
                      .axis = ShardAxis::kVocab,
                      .divides_inputs = false};
    all.push_back(reads.read(head, embedding, on_gpus));
    const RawTensor* const tensor = checkpoint.weight(embedding);
    if (!on_gpus && stage.embeds && tensor != nullptr &&
        packs_embedding(*tensor, head_override(weights), Activation::kBf16)) {
      all.front().read_as = all.back().read_as;
      all.front().read_bytes = 0;
    }
  }
  return all;
}

std::vector<WidenedFormat> widened_formats(const Checkpoint& checkpoint, const LayerRange& stage,
                                           bool on_gpus, WeightOverride weights) {
  std::vector<WidenedFormat> formats;
  std::string embedding;  // the format in which it is read
  for (const ModuleRead& read : module_reads(checkpoint, stage, weights, on_gpus)) {
    if (read.change == WeightChange::kNone || read.module.type == ModuleType::kNorm) continue;
    if (read.module.type == ModuleType::kEmbedding) embedding = read.read_as;
    auto found = std::find_if(formats.begin(), formats.end(), [&](const WidenedFormat& each) {
      return each.stored == read.stored && each.read_as == read.read_as;
    });
    if (found == formats.end()) {
      found = formats.insert(found, {read.stored, read.read_as, read.change, 0, 0});
    }
    // The stored bytes of a tied head are counted already if the embedding is read in the same
    // format.
    if (!read.is_tied_head || embedding != read.read_as) found->stored_bytes += read.stored_bytes;
    found->read_bytes += read.read_bytes;
  }
  return formats;
}

const char* weight_change_name(WeightChange change) {
  switch (change) {
    case WeightChange::kNone:
      return "as stored";
    case WeightChange::kEnlarged:
      return "enlarged";
    case WeightChange::kWidened:
      return "widened";
    case WeightChange::kRounded:
      return "rounded";
  }
  return "";
}

std::string describe(const std::vector<WidenedFormat>& formats) {
  std::string text;
  for (const WidenedFormat& each : formats) {
    text += (text.empty() ? "" : "; ") + each.stored + " (" + megabytes(each.stored_bytes) +
            ") is " + weight_change_name(each.change) + " to " + each.read_as + " (" +
            megabytes(each.read_bytes) + ")";
  }
  return text;
}

}  // namespace forerun
