#include "checkpoint/side_files.h"

#include <algorithm>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>

#include "checkpoint/content_digest.h"
#include "checkpoint/gguf/gguf_file.h"

namespace forerun {
namespace {

using Facts = std::vector<std::pair<std::string, std::string>>;

// A digest replaces values with more than this many characters; larger objects count as one value,
// since a vocabulary is not a list of fields.
constexpr size_t kLongestValue = 100;
constexpr size_t kMaxMembers = 64;

std::string digest_of(const std::string& text) {
  return content_digest(std::as_bytes(std::span(text.data(), text.size())));
}

std::optional<std::string> read_file(const std::filesystem::path& file) {
  std::error_code error;
  if (!std::filesystem::is_regular_file(file, error)) return std::nullopt;
  std::ifstream in(file, std::ios::binary);
  std::string text{std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
  if (!in && !in.eof()) return std::nullopt;
  return text;
}

void add_whole(const std::string& name, const std::string& text, Facts& facts) {
  facts.emplace_back(name, digest_of(text) + " (" + std::to_string(text.size()) + " bytes)");
}

void add_value(const std::string& name, const nlohmann::json& value, Facts& facts) {
  if (value.is_object() && !value.empty() && value.size() <= kMaxMembers) {
    for (const auto& [key, member] : value.items()) add_value(name + "." + key, member, facts);
    return;
  }
  std::string text =
      value.dump(-1, ' ', /*ensure_ascii=*/true, nlohmann::json::error_handler_t::replace);
  if (text.size() > kLongestValue) return add_whole(name, text, facts);
  facts.emplace_back(name, std::move(text));
}

void add_fields(const std::string& name, const std::string& text, Facts& facts) {
  const auto root = nlohmann::json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!root.is_object()) return add_whole(name, text, facts);
  for (const auto& [key, member] : root.items()) add_value(name + ", " + key, member, facts);
}

}  // namespace

Facts side_file_facts(const std::filesystem::path& dir) {
  Facts facts;
  for (const char* const name : {"config.json", "generation_config.json", "quant_config.json",
                                 "quantize_config.json", "tokenizer_config.json"}) {
    if (const auto text = read_file(dir / name)) add_fields(name, *text, facts);
  }
  if (const auto text = read_file(dir / "tokenizer.json")) {
    add_whole("tokenizer.json", *text, facts);
  }
  std::sort(facts.begin(), facts.end());
  return facts;
}

Facts description_facts(const Checkpoint& checkpoint) {
  if (checkpoint.gguf() == nullptr) return side_file_facts(checkpoint.path());
  Facts facts;
  for (const GgufValue& value : checkpoint.gguf()->metadata().values()) {
    const std::string name = "metadata, " + std::string(value.key);
    const std::string bytes(reinterpret_cast<const char*>(value.bytes.data()), value.bytes.size());
    if (value.type == GgufType::kString && bytes.size() <= kLongestValue) {
      facts.emplace_back(name, bytes);
    } else {
      add_whole(name, bytes, facts);
    }
  }
  std::sort(facts.begin(), facts.end());
  return facts;
}

}  // namespace forerun
