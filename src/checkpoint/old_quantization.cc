#include "checkpoint/old_quantization.h"

#include <cstdint>
#include <initializer_list>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <system_error>
#include <utility>

#include "base/lower_case.h"
#include "base/printable.h"
#include "checkpoint/layouts/weight_layout.h"
#include "json/field_reader.h"
#include "json/json_document.h"

namespace forerun {
namespace {

constexpr int64_t kMaxFileBytes = 1 << 20;

struct OldFile {
  const char* name;
  void (*read)(FieldReader&, QuantizationConfig&);
};

constexpr OldFile kOldFiles[] = {{"quantize_config.json", read_gptq_fields},
                                 {"quant_config.json", read_awq_fields}};

// Fields that determine how weights are decoded, with a second spelling if there is one.
constexpr const char* kFields[][2] = {
    {"quant_method", nullptr},
    {"bits", "w_bit"},
    {"group_size", "q_group_size"},
    {"desc_act", nullptr},
    {"sym", nullptr},
    {"zero_point", nullptr},
    {"version", nullptr},
    {"checkpoint_format", nullptr},
};

// Returns a field's name and its value as JSON in lower case.
std::optional<std::pair<std::string, std::string>> stated(const FieldReader& fields,
                                                          const char* const (&spellings)[2]) {
  for (const char* const name : spellings) {
    if (name == nullptr || !fields.has(name)) continue;
    return std::pair(std::string(name), lower_case(fields.any(name)->dump()));
  }
  return std::nullopt;
}

// Compares the file with config.json, which takes precedence, as in transformers. If they differ,
// the file or the weights belong to another quantization.
Status compare_with_config(const std::filesystem::path& dir) {
  const auto config = JsonDocument::read(dir / "config.json", int64_t{16} << 20);
  if (!config.ok()) return config.status();
  FieldReader all(config->root());
  for (const char* const section : {"quantization_config", "compression_config"}) {
    const auto newer = all.object(section);
    if (!newer) continue;
    for (const OldFile& file : kOldFiles) {
      const auto document = JsonDocument::read(dir / file.name, kMaxFileBytes);
      if (!document.ok()) continue;
      FieldReader older(document->root());
      for (const auto& spellings : kFields) {
        const auto found = stated(older, spellings);
        const auto expected = stated(*newer, spellings);
        if (!found || !expected || found->second == expected->second) continue;
        older.refuse(found->first,
                     printable(expected->second) + ", as " + section +
                         " of config.json beside it says, or no " + file.name,
                     StatusCode::kCorrupt, printable(found->second));
        return older.status();
      }
    }
  }
  return Status();
}

}  // namespace

Status read_old_quantization(const std::filesystem::path& dir, ModelConfig& config) {
  if (config.quantization.kind != QuantizationConfig::Kind::kNone) return compare_with_config(dir);
  for (const OldFile& file : kOldFiles) {
    const auto document = JsonDocument::read(dir / file.name, kMaxFileBytes);
    if (!document.ok()) {
      if (document.status().code() == StatusCode::kNotFound) continue;
      return document.status();
    }
    FieldReader fields(document->root());
    file.read(fields, config.quantization);
    config.quantization.kind = QuantizationConfig::Kind::kParts;
    return fields.status();
  }
  std::error_code error;
  if (std::filesystem::exists(dir / "hf_quant_config.json", error)) {
    return Status(StatusCode::kUnsupported,
                  (dir / "hf_quant_config.json").string() +
                      ": found ModelOpt's description (NVFP4 or FP8), and config.json has none; "
                      "accepted: quantization that config.json describes; take the original bf16 "
                      "or f16 checkpoint, or a GGUF file of it");
  }
  return Status();
}

}  // namespace forerun
