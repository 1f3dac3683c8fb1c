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

FileFormat q8_0() {
  return {.kind = FileFormat::Kind::kBlocks, .blocks = &block_format(BlockFormat::kQ8_0)};
}

// Whether rounding to `dtype` changes none of the values.
bool is_exact(const RawTensor& tensor, DType dtype) {
  std::vector<float> values(static_cast<size_t>(tensor.shape[0]));
  widen(tensor, 0, tensor.shape[0], values.data());
  return std::all_of(values.begin(), values.end(), [&](float value) {
    if (dtype == DType::kBf16) return to_float(to_bf16(value)) == value;
    return dtype == DType::kF32 || to_float(to_f16(value)) == value;
  });
}

// "f32, bf16, f16, q4_0": the names of floats and of a kind.
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
    list_notes();
    return std::move(plan_);
  }

 private:
  struct Note {
    std::string first_name;
    std::string text;
    int count;
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

  // What embedding, head and layers that AWQ cannot hold get where nothing was asked for.
  FileFormat wide_format(ModuleId module) const {
    if (to_.kind != FileFormat::Kind::kAwq) return is_smaller_than_a_byte(to_) ? q8_0() : to_;
    const RawTensor* const weight = input_.weight(module);
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
    if (format.kind == FileFormat::Kind::kAwq) {
      if (source.awq() && source.awq()->group_size == format.group_size) {
        for (const ModuleTensor& part : input_.tensors_of(module.id)) {
          if (!part.name.ends_with(".bias")) {
            plan_.jobs.push_back(copy_tensor(part.name, *part.tensor));
          }
        }
        return {};
      }
      if (source.rows() % kOutputsOfAwqWord == 0 && source.columns() % format.group_size == 0) {
        plan_.jobs.push_back(quantize_to_awq(name, std::move(source), format.group_size));
        return {};
      }
      format = wide_format(module.id);
      plan_.directory.kept_modules.push_back(name);
      note(name, source, format,
           "no AWQ of groups of " + std::to_string(plan_.directory.awq_group_size));
    } else if (format.blocks != nullptr && source.columns() % format.blocks->weights != 0) {
      const std::string found =
          "rows that are no whole number of blocks of " + std::to_string(format.blocks->weights);
      format = {.dtype = DType::kF16};
      note(name, source, format, found);
    }
    plan_.jobs.push_back(
        convert_weight(name + ".weight", std::move(source), format, order_of(module.id)));
    return {};
  }

  // Layers of one shape share a line.
  void note(const std::string& name, const WeightSource& source, const FileFormat& format,
            const std::string& found) {
    const std::string text = std::to_string(source.rows()) + " x " +
                             std::to_string(source.columns()) + ", " + found + "; written as " +
                             output_format_name(format);
    for (Note& each : notes_) {
      if (each.text == text) return void(++each.count);
    }
    notes_.push_back({name, text, 1});
  }

  void list_notes() {
    for (const Note& each : notes_) {
      std::string line = each.first_name;
      if (each.count > 1) line += " and " + std::to_string(each.count - 1) + " others";
      plan_.notes.push_back(line + ": " + each.text);
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
  int64_t interleaved_head_ = 0;  // of the output
  std::vector<Note> notes_;
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
