#include "checkpoint/tensor_checks.h"

#include <algorithm>
#include <cstring>
#include <set>
#include <tuple>
#include <utility>

#include "base/printable.h"
#include "base/status_macros.h"
#include "checkpoint/modules.h"

namespace forerun {
namespace {

bool is_float(DType dtype) {
  return dtype == DType::kF32 || dtype == DType::kBf16 || dtype == DType::kF16;
}

std::string label(std::string_view name) { return "tensor " + in_quotes(name); }

Status disagreement(std::string_view name, const std::string& found, const std::string& accepted) {
  return Status(StatusCode::kCorrupt, label(name) + ": found " + found + "; accepted: " + accepted);
}

// Tensors that other tools leave in layers and that mean nothing here.
bool is_ignorable(std::string_view name) {
  for (const char* suffix :
       {".rotary_emb.inv_freq", ".rotary_emb.cos_cached", ".rotary_emb.sin_cached", ".masked_bias",
        ".k_scale", ".v_scale", ".kv_scale"}) {
    if (name.ends_with(suffix)) return true;
  }
  return false;
}

// What a tensor may be stored as.
std::string accepted_formats(const TensorTable& table, bool is_matrix) {
  std::string formats = "f32, bf16 or f16";
  if (!is_matrix || !table.is_gguf()) return formats;
  formats += ", or one of";
  for (const BlockFormatInfo& blocks : block_formats()) formats += " " + std::string(blocks.name);
  return formats + "; take a file with one of these, or make one with llama-quantize";
}

class Checker {
 public:
  Checker(const TensorTable& table, const ModelConfig& config) : table_(table), config_(config) {}

  Status run() {
    for (const Module& module : decoder_modules(config_)) {
      FORERUN_RETURN_IF_ERROR(check_module(module));
    }
    return check_nothing_left();
  }

 private:
  Status in_file(const RawTensor& tensor, Status status) const {
    return status.with_context(table_.file_of(tensor).string());
  }

  static bool is_matrix(const Module& module) {
    return module.type == ModuleType::kLinear || module.type == ModuleType::kHead;
  }

  Status check_module(const Module& module) {
    const std::string name = module_name(module.id, ModuleNaming::kHuggingFace);
    if (module.has_bias) {
      FORERUN_RETURN_IF_ERROR(check_plain(module, bias_name(module.id), {module.out}));
    }
    if (config_.quantization.kind == QuantizationConfig::Kind::kAwq && is_matrix(module) &&
        table_.find(name + ".qweight") != nullptr) {
      return check_awq(module, name);
    }
    FORERUN_RETURN_IF_ERROR(check_may_be_dense(module, name));
    return check_plain(module, weight_name(module.id), module.shape());
  }

  // Under AWQ only those layers are dense that config.json leaves out; others mean that the
  // description was copied from somewhere else.
  Status check_may_be_dense(const Module& module, const std::string& name) const {
    const RawTensor* tensor = table_.find(weight_name(module.id));
    if (config_.quantization.kind != QuantizationConfig::Kind::kAwq ||
        module.type != ModuleType::kLinear || tensor == nullptr) {
      return Status();
    }
    for (const std::string& kept : config_.quantization.modules_to_not_convert) {
      if (!kept.empty() && name.find(kept) != std::string::npos) return Status();
    }
    return in_file(*tensor, disagreement(tensor->name,
                                         std::string(format_name(*tensor)) +
                                             " weights, though config.json describes AWQ",
                                         name + ".qweight, the layer in modules_to_not_convert, or "
                                                "no quantization_config"));
  }

  Status check_plain(const Module& module, const std::string& name,
                     const std::vector<int64_t>& shape) {
    const RawTensor* tensor = table_.find(name);
    if (tensor == nullptr) return missing(module, name);
    used_.insert(tensor->name);
    const bool takes_blocks = shape.size() == 2;
    if (!is_float(tensor->dtype) && !(takes_blocks && tensor->blocks != nullptr)) {
      return in_file(*tensor, disagreement(tensor->name, std::string(format_name(*tensor)),
                                           accepted_formats(table_, takes_blocks)));
    }
    if (tensor->shape != shape) {
      return in_file(*tensor, disagreement(tensor->name, "shape " + shape_text(tensor->shape),
                                           shape_text(shape) + ", as " +
                                               std::string(table_.described_by()) + " says"));
    }
    return Status();
  }

  Status check_awq(const Module& module, const std::string& name) {
    auto parts = find_awq_parts(table_, module.id, config_.quantization);
    const RawTensor& qweight = *table_.find(name + ".qweight");
    if (!parts.ok()) return in_file(qweight, parts.status());
    if (module.type == ModuleType::kHead) {
      return in_file(qweight, Status(StatusCode::kUnsupported,
                                     label(qweight.name) + ": found a quantized head; accepted: " +
                                         weight_name(module.id) + " in f32, bf16 or f16"));
    }
    if (parts->out_features != module.out || parts->in_features != module.in) {
      const std::vector<int64_t> accepted = {module.in, module.out / 8};
      return in_file(qweight, disagreement(qweight.name, "shape " + shape_text(qweight.shape),
                                           shape_text(accepted) + ", as config.json says"));
    }
    for (const RawTensor* part : {parts->qweight, parts->qzeros, parts->scales}) {
      used_.insert(part->name);
    }
    return Status();
  }

  Status missing(const Module& module, const std::string& name) const {
    const std::string_view foreign = table_.foreign_dtype(name);
    if (!foreign.empty()) {
      return disagreement(table_.spelling(name), printable(foreign),
                          accepted_formats(table_, module.type != ModuleType::kNorm))
          .with_context(table_.main_file().string());
    }
    std::string hint;
    const std::string quantized = module_name(module.id, ModuleNaming::kHuggingFace) + ".qweight";
    if (is_matrix(module) && config_.quantization.kind == QuantizationConfig::Kind::kAwq) {
      hint = ", nor " + quantized;
    } else if (is_matrix(module) && table_.find(quantized) != nullptr) {
      hint =
          ", but a quantized one, though config.json has no quantization_config; accepted: "
          "AWQ described there";
    } else if (module.type == ModuleType::kHead) {
      hint = "; accepted: a head, or \"tie_word_embeddings\": true in config.json";
    }
    return Status(StatusCode::kNotFound, table_.main_file().string() + ": " +
                                             label(table_.spelling(name)) + ": not found" + hint);
  }

  Status check_nothing_left() const {
    for (const RawTensor& tensor : table_.tensors()) {
      const bool in_layer = tensor.name.starts_with("model.layers.") ||
                            tensor.name.starts_with("layers.") || tensor.name.starts_with("blk.");
      if (!in_layer || used_.contains(tensor.name) || is_ignorable(tensor.name)) continue;
      return in_file(
          tensor,
          disagreement(tensor.name,
                       "a tensor that " + std::string(table_.described_by()) + " gives no place",
                       "the tensors of " + std::to_string(config_.num_layers) + " layers of " +
                           config_.model_type + " with its biases and quantization"));
    }
    return Status();
  }

  const TensorTable& table_;
  const ModelConfig& config_;
  std::set<std::string_view> used_;
};

}  // namespace

std::string shape_text(std::span<const int64_t> shape) {
  std::string text;
  for (const int64_t extent : shape) {
    text += '[';
    text += std::to_string(extent);
    text += ']';
  }
  return text.empty() ? "[] (a scalar)" : text;
}

bool has_head_of_its_own(const TensorTable& table) {
  const RawTensor* head = table.find(weight_name({ModuleKind::kHead}));
  const RawTensor* embedding = table.find(weight_name({ModuleKind::kEmbedding}));
  if (!head || !embedding) return false;
  return head->dtype != embedding->dtype || head->shape != embedding->shape ||
         head->bytes.size() != embedding->bytes.size() ||
         std::memcmp(head->bytes.data(), embedding->bytes.data(), head->bytes.size()) != 0;
}

Status check_tensors(const TensorTable& table, const ModelConfig& config) {
  return Checker(table, config).run();
}

Result<AwqTensors> find_awq_parts(const TensorTable& table, ModuleId id,
                                  const QuantizationConfig& quantization) {
  const std::string module = module_name(id, ModuleNaming::kHuggingFace);
  const RawTensor* qweight = table.find(module + ".qweight");
  const RawTensor* qzeros = table.find(module + ".qzeros");
  const RawTensor* scales = table.find(module + ".scales");
  if (qweight == nullptr && qzeros == nullptr && scales == nullptr) {
    return Status(StatusCode::kNotFound, label(module + ".qweight") + ": not found");
  }
  for (const auto& [part, suffix] : {std::pair(qweight, ".qweight"), std::pair(qzeros, ".qzeros"),
                                     std::pair(scales, ".scales")}) {
    if (part == nullptr) {
      return Status(StatusCode::kCorrupt,
                    label(module + suffix) + ": not found, though other parts of the layer are");
    }
    if (part->shape.size() != 2) {
      return disagreement(part->name, "shape " + shape_text(part->shape), "two dimensions");
    }
    if (part == scales ? !is_float(part->dtype) : part->dtype != DType::kI32) {
      return disagreement(part->name, std::string(dtype_name(part->dtype)),
                          part == scales ? "f16, bf16 or f32" : "i32");
    }
  }
  AwqTensors result{.qweight = qweight,
                    .qzeros = qzeros,
                    .scales = scales,
                    .in_features = qweight->shape[0],
                    .out_features = scales->shape[1],
                    .group_size = quantization.group_size};
  if (result.group_size == -1) result.group_size = result.in_features;
  if (result.group_size < 1 || result.in_features < 1 ||
      result.in_features % result.group_size != 0) {
    return disagreement(qweight->name, std::to_string(result.in_features) + " input channels",
                        "a multiple of quantization_config's group_size (" +
                            std::to_string(result.group_size) + ")");
  }
  const int64_t groups = result.in_features / result.group_size;
  if (result.out_features < 8 || result.out_features % 8 != 0) {
    return disagreement(scales->name, "shape " + shape_text(scales->shape),
                        "a multiple of 8 output channels");
  }
  for (const auto& [part, rows, columns] :
       {std::tuple(qweight, result.in_features, result.out_features / 8),
        std::tuple(qzeros, groups, result.out_features / 8),
        std::tuple(scales, groups, result.out_features)}) {
    const std::vector<int64_t> accepted = {rows, columns};
    if (part->shape != accepted) {
      return disagreement(part->name, "shape " + shape_text(part->shape),
                          shape_text(accepted) + " for " + std::to_string(result.in_features) +
                              " inputs, " + std::to_string(result.out_features) +
                              " outputs, group size " + std::to_string(result.group_size));
    }
  }
  return result;
}

}  // namespace forerun
