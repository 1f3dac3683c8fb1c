#include "text/gguf_pre_kinds.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "json/json_value.h"
#include "text/canonical_json.h"

namespace forerun::text {
namespace {

using nlohmann::json;

// The patterns are those of the families' tokenizer.json files, letter for letter, since
// Tokenizer::fingerprint() covers them; llama.cpp has others, for a regex engine of its own. Tests
// compare gpt-2, llama-bpe, qwen2 and deepseek-coder with such files.

constexpr std::string_view kLlama3[] = {
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}|)"
    R"( ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)"};

constexpr std::string_view kQwen2[] = {
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}|)"
    R"( ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)"};

constexpr std::string_view kQwen35[] = {
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}|)"
    R"( ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)"};

constexpr std::string_view kTekken[] = {
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+|)"
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*|\p{N}|)"
    R"( ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)"};

constexpr std::string_view kGpt4o[] = {
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+)"
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)?|)"
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*)"
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)?|\p{N}{1,3}|)"
    R"( ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)"};

constexpr std::string_view kDeepseekLlm[] = {
    "[\r\n]",
    "\\s?["
    "A-Za-z\u00B5\u00C0-\u00D6\u00D8-\u00F6\u00F8-\u01BA\u01BC-\u01BF\u01C4-\u0293"
    "\u0295-\u02AF\u0370-\u0373\u0376\u0377\u037B-\u037D\u037F\u0386\u0388-\u038A\u038C"
    "\u038E-\u03A1\u03A3-\u03F5\u03F7-\u0481\u048A-\u052F\u0531-\u0556\u10A0-\u10C5"
    "\u13A0-\u13F5\u13F8-\u13FD\u1C90-\u1CBA\u1CBD-\u1CBF\u1D00-\u1D2B\u1D6B-\u1D77"
    "\u1D79-\u1D9A\u1E00-\u1F15\u1F18-\u1F1D\u1F20-\u1F45\u1F48-\u1F4D\u1F50-\u1F57\u1F59"
    "\u1F5B\u1F5D\u1F5F-\u1F7D\u1F80-\u1FB4\u1FB6-\u1FBC\u1FBE\u1FC2-\u1FC4\u1FC6-\u1FCC"
    "\u1FD0-\u1FD3\u1FD6-\u1FDB\u1FE0-\u1FEC\u1FF2-\u1FF4\u1FF6-\u1FFC\u2102\u2107"
    "\u210A-\u2113\u2115\u2119-\u211D\u2124\u2126\u2128\u212A-\u212D\u212F-\u2134\u2139"
    "\u213C-\u213F\u2145-\u2149\u214E\u2183\u2184\u2C00-\u2C7B\u2C7E-\u2CE4\u2CEB-\u2CEE"
    "\u2CF2\u2CF3\uA640-\uA66D\uA680-\uA69B\uA722-\uA76F\uA771-\uA787\uA78B-\uA78E"
    "\uAB70-\uABBF\uFB00-\uFB06\uFB13-\uFB17\uFF21-\uFF3A\uFF41-\uFF5A"
    "\U00010400-\U0001044F\U000104B0-\U000104D3\U000104D8-\U000104FB\U00010C80-\U00010CB2"
    "\U00010CC0-\U00010CF2\U000118A0-\U000118DF\U0001E900-\U0001E943"
    "]+",
    "\\s?[!-/:-~\uFF01-\uFF0F\uFF1A-\uFF5E\u2018-\u201F\u3000-\u3002]+",
    "\\s+$",
    "[\u4E00-\u9FA5\u0800-\u4E00\uAC00-\uD7FF]+",
};

constexpr std::string_view kDeepseekCoder[] = {
    "[\r\n]",
    "\\s?\\p{L}+",
    "\\s?\\p{P}+",
    "[\u4E00-\u9FA5\u0800-\u4E00\uAC00-\uD7FF]+",
};

constexpr std::string_view kDeepseekV3[] = {
    "\\p{N}{1,3}",
    "[\u4E00-\u9FA5\u3040-\u309F\u30A0-\u30FF]+",
    "[!\"#$%&'()*+,\\-./"
    ":;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+|[^\r\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+|"
    " ?[\\p{P}\\p{S}]+[\r\n]*|\\s*[\r\n]+|\\s+(?!\\S)|\\s+",
};

constexpr auto kAsSplit = GgufPreKind::Words::kAsSplit;
constexpr auto kGpt2 = GgufPreKind::Words::kGpt2;
constexpr auto kAnyDigits = GgufPreKind::Digits::kAsSplit;
constexpr auto kSingle = GgufPreKind::Digits::kSingle;

// Name, NFC, patterns, digits, words, ignore_merges, add_bos.
constexpr GgufPreKind kKinds[] = {
    {"default", false, {}, kAnyDigits, kGpt2, false, false},
    {"gpt-2", false, {}, kAnyDigits, kGpt2, false, false},
    {"phi-2", false, {}, kAnyDigits, kGpt2, false, false},
    {"olmo", true, {}, kAnyDigits, kGpt2, false, false},
    {"mpt", true, {}, kAnyDigits, kGpt2, false, false},
    {"smollm", false, {}, kSingle, kGpt2, false, false},
    {"starcoder", false, {}, kSingle, kGpt2, false, false},
    {"refact", false, {}, kSingle, kGpt2, false, false},
    {"command-r", true, {}, kSingle, kGpt2, false, false},
    {"llama3", false, kLlama3, kAnyDigits, kAsSplit, true, true},
    {"llama-v3", false, kLlama3, kAnyDigits, kAsSplit, true, true},
    {"llama-bpe", false, kLlama3, kAnyDigits, kAsSplit, true, true},
    {"smaug-bpe", false, kLlama3, kAnyDigits, kAsSplit, false, false},
    {"dbrx", false, kLlama3, kAnyDigits, kAsSplit, false, false},
    {"qwen2", true, kQwen2, kAnyDigits, kAsSplit, false, false},
    {"deepseek-r1-qwen", true, kQwen2, kAnyDigits, kAsSplit, false, false},
    {"qwen35", true, kQwen35, kAnyDigits, kAsSplit, false, false},
    {"tekken", false, kTekken, kAnyDigits, kAsSplit, true, true},
    {"gpt-4o", false, kGpt4o, kAnyDigits, kAsSplit, false, false},
    {"deepseek-llm", false, kDeepseekLlm, kSingle, kAsSplit, false, false},
    {"deepseek-coder", false, kDeepseekCoder, kSingle, kAsSplit, false, false},
    {"deepseek-v3", false, kDeepseekV3, kAnyDigits, kAsSplit, false, false},
};

}  // namespace

const GgufPreKind* find_gguf_pre_kind(std::string_view name) {
  const auto* const found =
      std::find_if(std::begin(kKinds), std::end(kKinds),
                   [&](const GgufPreKind& kind) { return kind.name == name; });
  return found == std::end(kKinds) ? nullptr : found;
}

const GgufPreKind* find_gguf_pre_kind_of(const json& tokenizer_json) {
  const std::string splitting = canonical_splitting(JsonValue(&tokenizer_json, ""));
  const json& model = tokenizer_json.at("model");
  const bool ignore_merges = model.value("ignore_merges", false);
  for (const GgufPreKind& kind : kKinds) {
    // Other names of gpt-2 and llama-bpe.
    if (kind.name == "default" || kind.name == "llama3" || kind.name == "llama-v3") continue;
    if (kind.ignore_merges != ignore_merges) continue;
    const json own = {{"normalizer", normalizer_json(kind)},
                      {"pre_tokenizer", pre_tokenizer_json(kind)}};
    if (canonical_splitting(JsonValue(&own, "")) == splitting) return &kind;
  }
  return nullptr;
}

std::string gguf_pre_kind_names() {
  std::string names;
  for (const GgufPreKind& kind : kKinds) {
    if (!names.empty()) names += ", ";
    names += kind.name;
  }
  return names;
}

json normalizer_json(const GgufPreKind& kind) {
  return kind.nfc ? json({{"type", "NFC"}}) : json();
}

json pre_tokenizer_json(const GgufPreKind& kind) {
  json steps = json::array();
  for (const std::string_view pattern : kind.patterns) {
    steps.push_back({{"type", "Split"},
                     {"pattern", {{"Regex", pattern}}},
                     {"behavior", "Isolated"},
                     {"invert", false}});
  }
  if (kind.digits == kSingle) {
    steps.push_back({{"type", "Digits"}, {"individual_digits", true}});
  }
  steps.push_back(
      {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"use_regex", kind.words == kGpt2}});
  return {{"type", "Sequence"}, {"pretokenizers", std::move(steps)}};
}

}  // namespace forerun::text
