#include "checkpoint/gguf/gguf_split.h"

#include <algorithm>
#include <cstdio>

namespace forerun {
namespace {

constexpr std::string_view kEnding = ".gguf";
constexpr std::string_view kOf = "-of-";
constexpr size_t kDigits = 5;

constexpr std::string_view kPartKey = "split.no";
constexpr std::string_view kCountKey = "split.count";
constexpr std::string_view kTensorsKey = "split.tensors.count";

// Removes a number such as "00012" from the end of `text`.
std::optional<uint32_t> take_number(std::string_view* text) {
  if (text->size() < kDigits) return std::nullopt;
  uint32_t number = 0;
  for (const char digit : text->substr(text->size() - kDigits)) {
    if (digit < '0' || digit > '9') return std::nullopt;
    number = 10 * number + static_cast<uint32_t>(digit - '0');
  }
  text->remove_suffix(kDigits);
  return number;
}

bool take_suffix(std::string_view* text, std::string_view suffix) {
  if (!text->ends_with(suffix)) return false;
  text->remove_suffix(suffix.size());
  return true;
}

}  // namespace

std::optional<GgufPartName> parse_gguf_part_name(std::string_view file_name) {
  if (!take_suffix(&file_name, kEnding)) return std::nullopt;
  const std::optional<uint32_t> num_parts = take_number(&file_name);
  if (!num_parts || !take_suffix(&file_name, kOf)) return std::nullopt;
  const std::optional<uint32_t> part = take_number(&file_name);
  if (!part || !take_suffix(&file_name, "-")) return std::nullopt;
  return GgufPartName{.name = std::string(file_name), .part = *part, .num_parts = *num_parts};
}

std::string gguf_part_name(const GgufPartName& name) {
  char numbers[40];
  std::snprintf(numbers, sizeof numbers, "-%05u-of-%05u.gguf", name.part, name.num_parts);
  return name.name + numbers;
}

Result<std::optional<GgufSplit>> read_gguf_split(const GgufMetadata& metadata,
                                                 const std::string& source) {
  GgufMetadataReader reader(metadata, source);
  if (!reader.has(kPartKey) && !reader.has(kCountKey) && !reader.has(kTensorsKey)) {
    return std::optional<GgufSplit>();
  }
  GgufSplit split;
  split.num_parts = reader.required_integer(kCountKey, 1, 99'999);
  split.part_idx = reader.required_integer(kPartKey, 0, split.num_parts - 1);
  split.num_tensors = reader.required_integer(kTensorsKey, 0, INT64_MAX);
  if (!reader.ok()) return Status(StatusCode::kCorrupt, reader.status().message());
  return std::optional<GgufSplit>(split);
}

}  // namespace forerun
