// Reads the sampling defaults of a GGUF file, general.sampling.*.
#include <algorithm>
#include <string>
#include <type_traits>
#include <vector>

#include "checkpoint/gguf/gguf_config.h"
#include "forerun/sampling_fields.h"

namespace forerun {
namespace {

constexpr std::string_view kSampling = "general.sampling.";

}  // namespace

std::string gguf_sampling_key(std::string_view gguf_name) {
  return std::string(kSampling) + std::string(gguf_name);
}

Result<GenerationDefaults> read_gguf_defaults(const GgufFile& file) {
  GgufMetadataReader fields = file.metadata_reader();
  GenerationDefaults defaults;
  std::vector<std::string> applied;
  for_each_sampling_field([&](const auto& field) {
    const std::string key = gguf_sampling_key(field.gguf_name);
    applied.push_back(key);
    auto& option = defaults.sampling.*field.option;
    if constexpr (std::is_same_v<std::decay_t<decltype(*option)>, float>) {
      option = fields.number(key, field.min, field.max);
    } else if (const auto value = fields.integer(key, static_cast<int64_t>(field.min),
                                                 static_cast<int64_t>(field.max))) {
      option = static_cast<int32_t>(*value);
    }
  });
  // The number of tokens that the penalties look at: this engine looks at all; 0 turns them off.
  const auto last = fields.integer(kGgufPenaltyLast, INT32_MIN, INT32_MAX);
  bool penalizes = false;
  for_each_sampling_field([&](const auto& field) {
    if (!field.is_penalty) return;
    auto& option = defaults.sampling.*field.option;
    if (last == 0) option.reset();
    penalizes = penalizes || option.has_value();
  });
  if (!penalizes || last.value_or(0) <= 0) applied.emplace_back(kGgufPenaltyLast);
  if (!fields.ok()) return fields.status();
  for (const GgufValue& value : file.metadata().values()) {
    if (!value.key.starts_with(kSampling)) continue;
    if (std::find(applied.begin(), applied.end(), value.key) != applied.end()) continue;
    defaults.not_applied.emplace_back(value.key);
  }
  return defaults;
}

}  // namespace forerun
