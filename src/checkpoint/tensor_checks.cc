#include "checkpoint/tensor_checks.h"

#include <algorithm>
#include <cstring>
#include <set>
#include <utility>

#include "base/printable.h"
#include "base/status_macros.h"
#include "checkpoint/gguf/ggml_types.h"
#include "checkpoint/gguf/gguf_config.h"
#include "checkpoint/layouts/weight_layout.h"
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

// Returns whether a tensor is one that other tools leave in files and that has no meaning here:
// computed tables, masks, and scales of a quantized cache.
bool is_ignorable(std::string_view name) {
  for (const std::string_view suffix :
       {".rotary_emb.inv_freq", ".rotary_emb.cos_cached", ".rotary_emb.sin_cached", ".masked_bias",
        ".k_scale", ".v_scale", ".kv_scale"}) {
    if (name.ends_with(suffix) || name == suffix.substr(1)) return true;
  }
  return false;
}

// Returns the accepted formats of a tensor.
std::string accepted_formats(const TensorTable& table, bool is_matrix, std::string_view found) {
  std::string formats = "f32, bf16 or f16";
  if (!table.is_gguf()) {
    return formats +
           "; take the model's bf16 or f16 checkpoint, or save it so with transformers "
           "(dtype=\"bfloat16\")";
  }
  if (!is_matrix) return formats + "; convert the original again with convert_hf_to_gguf.py";
  formats += ", or one of";
  for (const BlockFormatInfo& blocks : block_formats()) formats += " " + std::string(blocks.name);
  return formats + "; " + way_out_for_ggml_type(found);
}

// Returns an element of an i64 or i32 tensor.
int64_t integer_at(const RawTensor& tensor, int64_t index) {
  const auto read = [&](auto value) {
    std::memcpy(&value, tensor.bytes.data() + static_cast<size_t>(index) * sizeof value,
                sizeof value);
    return int64_t{value};
  };
  return tensor.dtype == DType::kI64 ? read(int64_t{0}) : read(int32_t{0});
}

class Checker {
 public:
  Checker(const TensorTable& table, const ModelConfig& config, PartsOfModules& parts)
      : table_(table), config_(config), parts_(parts) {}

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
    const LayerScheme* const scheme = scheme_for(module, name);
    if (scheme != nullptr && WeightParts::are_in(table_, name, *scheme)) {
      return check_parts(module, name, *scheme);
    }
    if (scheme != nullptr) FORERUN_RETURN_IF_ERROR(check_may_be_plain(module, name, *scheme));
    return check_plain(module, weight_name(module.id), module.shape());
  }

  // Returns null if config.json does not quantize the module.
  const LayerScheme* scheme_for(const Module& module, const std::string& name) const {
    return is_matrix(module) ? scheme_of(config_.quantization, name) : nullptr;
  }

  // Checks that config.json leaves out a layer that is stored plain; otherwise its description
  // belongs to another checkpoint. An LM head may always be plain.
  Status check_may_be_plain(const Module& module, const std::string& name,
                            const LayerScheme& scheme) const {
    const RawTensor* tensor = table_.find(weight_name(module.id));
    if (module.type != ModuleType::kLinear || tensor == nullptr ||
        is_left_out(config_.quantization, name)) {
      return Status();
    }
    return in_file(
        *tensor,
        disagreement(tensor->name,
                     std::string(format_name(*tensor)) + " weights, though config.json describes " +
                         std::string(scheme.layout->method),
                     main_part(name, scheme) + ", the layer among those that quantization_config "
                                               "leaves out (modules_to_not_convert, ignore), or no "
                                               "quantization_config"));
  }

  // Returns "NAME.qweight", or "NAME.weight in f8_e4m3".
  static std::string main_part(const std::string& name, const LayerScheme& scheme) {
    const LayoutPart& part = scheme.layout->parts.front();
    std::string text = name + std::string(part.suffix);
    if (part.suffix != ".weight") return text;
    return text + (is_in(DType::kI8, part.dtypes) ? " in i8" : " in f8_e4m3");
  }

  Status check_plain(const Module& module, const std::string& name,
                     const std::vector<int64_t>& shape) {
    const RawTensor* tensor = table_.find(name);
    if (tensor == nullptr) return missing(module, name, shape);
    used_.insert(tensor->name);
    const bool takes_blocks = shape.size() == 2;
    if (!is_float(tensor->dtype) && !(takes_blocks && tensor->blocks != nullptr)) {
      return in_file(*tensor,
                     disagreement(tensor->name, std::string(format_name(*tensor)),
                                  accepted_formats(table_, takes_blocks, format_name(*tensor))));
    }
    if (tensor->shape != shape) {
      return in_file(*tensor, disagreement(tensor->name, "shape " + shape_text(tensor->shape),
                                           shape_text(shape) + ", as " +
                                               std::string(table_.described_by()) + " says"));
    }
    return Status();
  }

  Status check_parts(const Module& module, const std::string& name, const LayerScheme& scheme) {
    const RawTensor& first = *table_.find(name + std::string(scheme.layout->parts.front().suffix));
    if (module.type == ModuleType::kHead) {
      return in_file(first, Status(StatusCode::kUnsupported,
                                   label(first.name) + ": found a quantized head; accepted: " +
                                       weight_name(module.id) + " in f32, bf16 or f16"));
    }
    if (must_be_plain(config_.quantization, name)) {
      return in_file(first,
                     disagreement(first.name,
                                  "quantized weights, though quantization_config leaves the layer "
                                  "out",
                                  weight_name(module.id) +
                                      " in f32, bf16 or f16, or a quantization_config that does "
                                      "not leave the layer out (modules_to_not_convert, "
                                      "ignored_layers, dynamic)"));
    }
    WeightParts& parts = parts_[{module.id.kind, module.id.layer}];
    if (Status found = parts.find(table_, module, scheme); !found.ok()) {
      return in_file(first, std::move(found));
    }
    for (const ModuleTensor& part : parts.tensors()) used_.insert(part.tensor->name);
    return module.has_bias ? Status() : check_no_bias(module);
  }

  // Accepts a bias of zeros: AutoGPTQ writes one for every layer, even if the model has none.
  Status check_no_bias(const Module& module) {
    const RawTensor* const bias = table_.find(bias_name(module.id));
    if (bias == nullptr || !is_float(bias->dtype)) return Status();
    const auto is_zero = [](std::byte byte) { return byte == std::byte{0}; };
    if (std::all_of(bias->bytes.begin(), bias->bytes.end(), is_zero)) used_.insert(bias->name);
    return Status();
  }

  Status missing(const Module& module, const std::string& name,
                 const std::vector<int64_t>& shape) const {
    const std::string_view foreign = table_.foreign_dtype(name);
    if (!foreign.empty()) {
      return disagreement(table_.spelling(name), printable(foreign),
                          accepted_formats(table_, module.type != ModuleType::kNorm, foreign))
          .with_context(table_.main_file().string());
    }
    std::string hint;
    const std::string layer = module_name(module.id, ModuleNaming::kHuggingFace);
    const LayerScheme* const scheme = scheme_for(module, layer);
    if (scheme != nullptr && module.type == ModuleType::kLinear) {
      hint = ", nor " + main_part(layer, *scheme) + ", as config.json describes " +
             std::string(scheme->layout->method) + parts_of_layer(layer) +
             "; accepted: either of the two";
    } else if (is_matrix(module) && (table_.find(layer + ".qweight") != nullptr ||
                                     table_.find(layer + ".weight_packed") != nullptr)) {
      hint = std::string(", but a quantized one, though config.json has ") +
             (config_.quantization.schemes.empty()
                  ? "no quantization_config; accepted: the layer described there"
                  : "no quantization of this layer; accepted: the layer among those that "
                    "quantization_config describes");
    } else if (module.type == ModuleType::kHead) {
      hint = "; accepted: a head, or \"tie_word_embeddings\": true in config.json";
    } else {
      hint = "; accepted: one of shape " + shape_text(shape) + ", as " +
             std::string(table_.described_by()) + " says";
    }
    return Status(StatusCode::kNotFound, table_.main_file().string() + ": " +
                                             label(table_.spelling(name)) + ": not found" + hint);
  }

  // Returns "; the layer has .weight_packed in i32, .weight_scale in bf16", or "".
  std::string parts_of_layer(const std::string& layer) const {
    std::string parts;
    for (const RawTensor& tensor : table_.tensors()) {
      const std::string spelled = table_.spelling(layer + ".");
      if (!tensor.name.starts_with(spelled)) continue;
      parts += parts.empty() ? "; the layer has " : ", ";
      parts += "." + printable(tensor.name.substr(spelled.size())) + " in ";
      parts += format_name(tensor);
    }
    return parts;
  }

  Status check_nothing_left() const {
    for (const RawTensor& tensor : table_.tensors()) {
      if (used_.contains(tensor.name) || has_other_use(tensor.name)) continue;
      return in_file(tensor, without_place(tensor.name));
    }
    for (const auto& [name, dtype] : table_.foreign()) {
      if (!has_other_use(name))
        return without_place(name).with_context(table_.main_file().string());
    }
    return Status();
  }

  // Returns whether a tensor outside of modules is read elsewhere or has no meaning.
  bool has_other_use(std::string_view name) const {
    if (is_ignorable(name)) return true;
    if (table_.is_gguf() && name == kGgufRopeFactors) return true;
    // t2d has the same mapping as d2t, from the target's side.
    if (config_.eagle3) return name == "d2t" || name == "t2d";
    // Some tools write a tied head a second time; one that differs from the embedding is used.
    return config_.tied_embeddings && !table_.is_gguf() && name == weight_name({ModuleKind::kHead});
  }

  Status without_place(std::string_view name) const {
    return disagreement(
        name, "a tensor that " + std::string(table_.described_by()) + " gives no place",
        "the tensors of " + std::to_string(config_.num_layers) + " layers of " +
            config_.model_type +
            " with its biases and quantization; nothing leaves a tensor out: transformers, vLLM "
            "or llama.cpp may run the model");
  }

  const TensorTable& table_;
  const ModelConfig& config_;
  PartsOfModules& parts_;
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

Result<std::vector<int32_t>> read_draft_tokens(const TensorTable& table,
                                               const ModelConfig& config) {
  const int64_t rows = config.eagle3->draft_vocab_size;
  const RawTensor* const tensor = table.find("d2t");
  if (tensor == nullptr) {
    if (rows == config.vocab_size) return std::vector<int32_t>();
    return Status(StatusCode::kNotFound, table.main_file().string() +
                                             ": tensor \"d2t\": not found; accepted: a token for " +
                                             "each of the " + std::to_string(rows) +
                                             " rows that draft_vocab_size says");
  }
  const auto refuse = [&](const std::string& found, const std::string& accepted) {
    return disagreement(tensor->name, found, accepted)
        .with_context(table.file_of(*tensor).string());
  };
  if (tensor->dtype != DType::kI64 && tensor->dtype != DType::kI32) {
    return refuse(std::string(format_name(*tensor)), "i64 or i32");
  }
  if (tensor->shape != std::vector<int64_t>{rows}) {
    return refuse("shape " + shape_text(tensor->shape), shape_text({{rows}}));
  }
  std::vector<int32_t> tokens;
  std::vector<bool> taken(static_cast<size_t>(config.vocab_size));
  for (int64_t row = 0; row < rows; ++row) {
    const int64_t value = integer_at(*tensor, row);
    const int64_t from = table.is_gguf() ? 0 : row;
    // Compares before adding, since the sum may overflow.
    const bool fits = value >= -from && value < config.vocab_size - from;
    if (!fits || taken[static_cast<size_t>(from + value)]) {
      return refuse("row " + std::to_string(row) + " and " + std::to_string(value) +
                        (fits ? ", the token of another row" : ""),
                    (table.is_gguf() ? "tokens from 0 to " : "sums from 0 to ") +
                        std::to_string(config.vocab_size - 1) + ", each once");
    }
    taken[static_cast<size_t>(from + value)] = true;
    tokens.push_back(static_cast<int32_t>(from + value));
  }
  const bool same = tokens.back() == rows - 1 && std::is_sorted(tokens.begin(), tokens.end());
  if (same) tokens.clear();  // each row's number is its token
  return tokens;
}

Status check_tensors(const TensorTable& table, const ModelConfig& config, PartsOfModules& parts) {
  return Checker(table, config, parts).run();
}

}  // namespace forerun
