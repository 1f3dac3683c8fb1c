#include "convert/conversion_plan.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "base/status_macros.h"
#include "checkpoint/float_tensor.h"
#include "checkpoint/gguf/gguf_config.h"
#include "checkpoint/modules.h"
#include "convert/gguf_description.h"

namespace forerun {
namespace {

constexpr int32_t kDefaultAwqGroup = 128;
constexpr int64_t kOutputsOfAwqWord = 8;

bool is_smaller_than_a_byte(const FileFormat& format) {
  return format.kind == FileFormat::Kind::kBlocks && format.blocks->bytes < format.blocks->weights;
}

double bits(const BlockFormatInfo& blocks) {
  return 8.0 * static_cast<double>(blocks.bytes) / static_cast<double>(blocks.weights);
}

bool is_stored_as(const WeightSource& source, const FileFormat& format) {
  const RawTensor* const dense = source.dense();
  if (dense == nullptr || dense->blocks != format.blocks) return false;
  return format.blocks != nullptr || (format.is_float() && dense->dtype == format.dtype);
}

FileFormat q8_0() {
  return {.kind = FileFormat::Kind::kBlocks, .blocks = &block_format(BlockFormat::kQ8_0)};
}

// Returns whether rounding to `dtype` changes no value.
bool is_exact(const RawTensor& tensor, DType dtype) {
  std::vector<float> values(static_cast<size_t>(tensor.shape[0]));
  widen(tensor, 0, tensor.shape[0], values.data());
  return std::all_of(values.begin(), values.end(), [&](float value) {
    if (dtype == DType::kBf16) return to_float(to_bf16(value)) == value;
    return dtype == DType::kF32 || to_float(to_f16(value)) == value;
  });
}

// Returns the names of floats and of one kind, such as "f32, bf16, f16, q4_0".
std::string floats_and(FileFormat::Kind kind) {
  std::string names;
  for (const FileFormat& format : output_formats()) {
    if (!format.is_float() && format.kind != kind) continue;
    names += (names.empty() ? "" : ", ") + output_format_name(format);
  }
  return names;
}

class Planner {
 public:
  Planner(const Checkpoint& input, bool is_gguf, const ConvertOptions& options)
      : input_(input), config_(input.config()), is_gguf_(is_gguf), options_(options) {}

  Result<ConversionPlan> run() {
    FORERUN_RETURN_IF_ERROR(check_formats());
    to_ = options_.to;
    if (to_.kind == FileFormat::Kind::kAwq) {
      if (to_.group_size == 0) to_.group_size = group_of_input();
      plan_.directory.awq_group_size = to_.group_size;
      plan_.directory.dtype = wide_format({ModuleKind::kEmbedding}).dtype;
    } else if (!is_gguf_) {
      plan_.directory.dtype = to_.dtype;
    }
    if (is_gguf_) {
      FORERUN_RETURN_IF_ERROR(find_row_order());
    }
    for (const Module& module : decoder_modules(config_)) {
      FORERUN_RETURN_IF_ERROR(add_module(module));
      if (is_gguf_ && module.id.kind == ModuleKind::kEmbedding) add_rope_factors();
    }
    FORERUN_RETURN_IF_ERROR(check_awq_layers());
    list_notes();
    return std::move(plan_);
  }

 private:
  // A note about layers that get another format than the requested one.
  struct Note {
    std::string first_name;
    std::string found;
    std::string written;   // the format
    std::string accepted;  // the formats that would hold the layer; empty if there are none
    int count;

    std::string names() const {
      return first_name + (count > 1 ? " and " + std::to_string(count - 1) + " others" : "");
    }
  };

  Status check_formats() const {
    const std::pair<const char*, std::optional<FileFormat>> formats[] = {
        {"--to", options_.to}, {"--embedding", options_.embedding}, {"--head", options_.head}};
    for (const auto& [flag, format] : formats) {
      if (!format) continue;
      const bool is_weight = std::string_view(flag) == "--to";
      const bool fits =
          format->is_float() || (is_gguf_ ? format->kind == FileFormat::Kind::kBlocks
                                          : is_weight && format->kind == FileFormat::Kind::kAwq);
      if (fits) continue;
      const auto fitting = is_gguf_    ? FileFormat::Kind::kBlocks
                           : is_weight ? FileFormat::Kind::kAwq
                                       : FileFormat::Kind::kFloat;
      return Status(
          StatusCode::kInvalidArgument,
          std::string(flag) + ": found " + output_format_name(*format) + "; accepted " +
              (is_gguf_ ? "in a GGUF file: " : "in a directory: ") + floats_and(fitting) +
              (is_weight && !is_gguf_ ? "; an output that is called OUT.gguf takes blocks" : ""));
    }
    if (options_.head && config_.tied_embeddings) {
      return Status(StatusCode::kInvalidArgument,
                    "--head: found a model whose head is its embedding; accepted: --embedding");
    }
    return {};
  }

  int32_t group_of_input() const {
    const RawTensor* const weight = input_.weight({ModuleKind::kQ, 0});
    if (weight != nullptr && weight->parts != nullptr) {
      if (const auto awq = weight->parts->awq_gemm()) return static_cast<int32_t>(awq->group_size);
    }
    return kDefaultAwqGroup;
  }

  // Returns the default format of embedding, head and layers that AWQ cannot hold.
  FileFormat wide_format(ModuleId module) const {
    const RawTensor* const weight = input_.weight(module);
    if (to_.kind != FileFormat::Kind::kAwq) {
      const FileFormat wide = is_smaller_than_a_byte(to_) ? q8_0() : to_;
      const BlockFormatInfo* const stored = weight != nullptr ? weight->blocks : nullptr;
      if (wide.blocks == nullptr || stored == nullptr || bits(*stored) > bits(*wide.blocks)) {
        return wide;
      }
      return {.kind = FileFormat::Kind::kBlocks, .blocks = stored};
    }
    const bool is_stored =
        weight != nullptr && weight->blocks == nullptr && weight->parts == nullptr;
    return {.dtype = is_stored ? weight->dtype : DType::kF16};
  }

  Status find_row_order() {
    if (input_.gguf() != nullptr) {
      interleaved_head_ = interleaved_head(*input_.gguf(), config_);
      return {};
    }
    FORERUN_ASSIGN_OR_RETURN(const GgufArchitecture architecture, gguf_architecture(config_));
    interleaved_head_ = architecture.interleaves_rows ? config_.head_dim : 0;
    return {};
  }

  RowOrder order_of(ModuleId id) const {
    const bool is_rotated = id.kind == ModuleKind::kQ || id.kind == ModuleKind::kK;
    return {is_rotated ? interleaved_head_ : 0};
  }

  std::string name_of(ModuleId id) const {
    return module_name(id, is_gguf_ ? ModuleNaming::kGguf : ModuleNaming::kHuggingFace);
  }

  Status add_module(const Module& module) {
    if (module.type == ModuleType::kNorm) {
      FORERUN_ASSIGN_OR_RETURN(const RawTensor* const norm, require_weight(input_, module.id));
      FORERUN_RETURN_IF_ERROR(add_vector(name_of(module.id) + ".weight", *norm, {}));
      return {};
    }
    FORERUN_RETURN_IF_ERROR(add_weight(module));
    if (!module.has_bias) return {};
    FORERUN_ASSIGN_OR_RETURN(const RawTensor* const bias, require_bias(input_, module.id));
    return add_vector(name_of(module.id) + ".bias", *bias, order_of(module.id));
  }

  Status add_vector(const std::string& name, const RawTensor& tensor, RowOrder order) {
    FORERUN_RETURN_IF_ERROR(check_readable(tensor));
    DType dtype = DType::kF32;
    if (!is_gguf_) {
      const DType rest = plan_.directory.dtype;
      dtype = input_.gguf() == nullptr ? tensor.dtype : is_exact(tensor, rest) ? rest : DType::kF32;
    }
    plan_.jobs.push_back(convert_vector(name, tensor, dtype, order));
    return {};
  }

  FileFormat format_of(const Module& module) const {
    if (module.type == ModuleType::kEmbedding) {
      return options_.embedding.value_or(wide_format(module.id));
    }
    if (module.type == ModuleType::kHead) {
      return options_.head.value_or(options_.embedding.value_or(wide_format(module.id)));
    }
    return to_;
  }

  Status add_weight(const Module& module) {
    FORERUN_ASSIGN_OR_RETURN(WeightSource source, WeightSource::make(input_, module.id));
    FileFormat format = format_of(module);
    const std::string name = name_of(module.id);
    ++plan_.num_weights;
    if (format.kind == FileFormat::Kind::kAwq) {
      if (source.awq() && source.awq()->group_size == format.group_size) {
        for (const ModuleTensor& part : input_.tensors_of(module.id)) {
          if (!part.name.ends_with(".bias")) {
            plan_.jobs.push_back(copy_tensor(part.name, *part.tensor));
          }
        }
        ++plan_.num_kept;
        ++num_awq_layers_;
        return {};
      }
      if (source.rows() % kOutputsOfAwqWord == 0 && source.columns() % format.group_size == 0) {
        plan_.jobs.push_back(quantize_to_awq(name, std::move(source), format.group_size));
        ++num_awq_layers_;
        return {};
      }
      format = wide_format(module.id);
      plan_.directory.kept_modules.push_back(name);
      note(name, source, format,
           "no AWQ of groups of " + std::to_string(plan_.directory.awq_group_size),
           accepted_by_awq(source));
    } else if (format.blocks != nullptr && source.columns() % format.blocks->weights != 0) {
      const std::string found =
          "rows that are no whole number of blocks of " + std::to_string(format.blocks->weights);
      format = {.dtype = DType::kF16};
      note(name, source, format, found, "");
    }
    if (is_stored_as(source, format)) ++plan_.num_kept;
    plan_.jobs.push_back(
        convert_weight(name + ".weight", std::move(source), format, order_of(module.id)));
    return {};
  }

  // Returns the accepted formats for the refusal of a layer that AWQ in groups of this size cannot
  // hold.
  static std::string accepted_by_awq(const WeightSource& source) {
    const int32_t group_size = largest_awq_group(source.columns());
    if (group_size != 0 && source.rows() % kOutputsOfAwqWord == 0) {
      return "awq:" + std::to_string(group_size);
    }
    return "inputs that are a multiple of 32, and outputs that are one of 8";
  }

  // Refuses a directory without an AWQ layer, which would not be AWQ.
  Status check_awq_layers() const {
    if (to_.kind != FileFormat::Kind::kAwq || num_awq_layers_ > 0 || notes_.empty()) return {};
    const Note& first = notes_.front();
    return Status(StatusCode::kInvalidArgument, "--to: found no layer that AWQ can hold (" +
                                                    first.names() + ": " + first.found +
                                                    "); accepted: " + first.accepted);
  }

  // Adds a note; layers of one shape share it.
  void note(const std::string& name, const WeightSource& source, const FileFormat& format,
            const std::string& reason, const std::string& accepted) {
    const std::string found =
        std::to_string(source.rows()) + " x " + std::to_string(source.columns()) + ", " + reason;
    const std::string written = output_format_name(format);
    for (Note& each : notes_) {
      if (each.found == found && each.written == written) return void(++each.count);
    }
    notes_.push_back({name, found, written, accepted, 1});
  }

  void list_notes() {
    for (const Note& each : notes_) {
      plan_.notes.push_back(each.names() + ": " + each.found + "; written as " + each.written +
                            (each.accepted.empty() ? "" : "; accepted: " + each.accepted));
    }
  }

  void add_rope_factors() {
    std::vector<float> factors = rope_factors(config_);
    if (!factors.empty()) {
      plan_.jobs.push_back(write_vector(std::string(kGgufRopeFactors), std::move(factors)));
    }
  }

  const Checkpoint& input_;
  const ModelConfig& config_;
  bool is_gguf_;
  const ConvertOptions& options_;
  FileFormat to_;
  int64_t interleaved_head_ = 0;  // rows of a head that the output interleaves; 0 for none
  std::vector<Note> notes_;
  int num_awq_layers_ = 0;
  ConversionPlan plan_;
};

}  // namespace

uint64_t ConversionPlan::bytes() const {
  uint64_t total = 0;
  for (const auto& job : jobs) {
    for (const OutputTensor& tensor : job->outputs()) total += tensor.bytes();
  }
  return total;
}

Result<ConversionPlan> plan_conversion(const Checkpoint& input, bool is_gguf,
                                       const ConvertOptions& options) {
  return Planner(input, is_gguf, options).run();
}

}  // namespace forerun
