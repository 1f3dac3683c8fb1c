#include "text/gguf_pre_kinds.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

namespace forerun::text {
namespace {

using nlohmann::json;
using StepType = GgufPreStep::Type;

// The patterns are those of the families' tokenizer.json files where these are known, character by
// character, since Tokenizer::fingerprint() covers them; llama.cpp has different ones, for its own
// regex engine. Tests compare gpt-2, llama-bpe, qwen2 and deepseek-coder with such files. Character
// classes with && or with nested classes are rewritten without them.

constexpr GgufPreStep kGpt2[] = {{StepType::kGpt2, {}}};
constexpr GgufPreStep kDigitsGpt2[] = {{StepType::kDigit, {}}, {StepType::kGpt2, {}}};

// llama.cpp's pre-tokenizer for unknown families.
constexpr GgufPreStep kDefault[] = {
    {StepType::kSplit, R"([\p{P}\$\+<=>\^~\|]+)"},
    {StepType::kSplit, R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S))"},
    {StepType::kSplit, R"(\p{N}+)"},
    {StepType::kSplit, "[0-9][0-9][0-9]"},
};

constexpr GgufPreStep kLlama3[] = {
    {StepType::kSplit, R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}|)"
                       R"( ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)"}};

constexpr GgufPreStep kJais2[] = {
    {StepType::kSplit,
     R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}|)"
     R"( ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s{512}(?!\S)|\s{256}(?!\S)|\s{128}(?!\S)|)"
     R"(\s{64}(?!\S)|\s{32}(?!\S)|\s{16}(?!\S)|\s{8}(?!\S)|\s{4}(?!\S)|\s{1,2}(?!\S)|\s{1})"}};

constexpr GgufPreStep kMiniCpm5[] = {
    {StepType::kSplit, R"(\p{N}{1,3})"},
    {StepType::kSplit, R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}+|)"
                       R"( ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)"}};

constexpr std::string_view kQwen2Words =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}|)"
    R"( ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr GgufPreStep kQwen2[] = {{StepType::kSplit, kQwen2Words}};
constexpr GgufPreStep kLaguna[] = {{StepType::kSplit, R"([^\n]+|[\n]+)"},
                                   {StepType::kSplit, kQwen2Words}};

constexpr GgufPreStep kQwen35[] = {
    {StepType::kSplit, R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}|)"
                       R"( ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)"}};

constexpr GgufPreStep kSeedCoder[] = {
    {StepType::kSplit, R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1}|)"
                       R"( ?[^\s\p{L}\p{N}\r\n]+|\s*[\r\n]+|\s+(?!\S)|\s+)"}};

constexpr GgufPreStep kBailingMoe[] = {{StepType::kSplit,
                                        R"('(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}|)"
                                        R"( ?[^\s\p{L}\p{N}]++[\r\n]*|\s*[\r\n]|\s+(?!\S)|\s+)"}};

constexpr GgufPreStep kExaoneMoe[] = {
    {StepType::kSplit,
     R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?(?:\p{L}\p{M}*(?: \p{L}\p{M}*)*)+|\p{N}|)"
     R"( ?[^\s\p{L}\p{N}]+[\r\n/]?|\s*[\r\n]|\s+(?!\S)|\s+)"}};

constexpr GgufPreStep kTekken[] = {
    {StepType::kSplit,
     R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+|)"
     R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*|\p{N}|)"
     R"( ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)"}};

constexpr std::string_view kGpt4oWords =
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+)"
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)?|)"
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*)"
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)?|\p{N}{1,3}|)"
    R"( ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr GgufPreStep kGpt4o[] = {{StepType::kSplit, kGpt4oWords}};
// Digits in groups of three from the right.
constexpr GgufPreStep kTinyAya[] = {{StepType::kSplit, R"(\d{1,3}(?=(?:\d{3})*\b))"},
                                    {StepType::kSplit, kGpt4oWords}};

constexpr GgufPreStep kYoutu[] = {
    {StepType::kSplit,
     "[\uAC00-\uD7A3\u3131-\u318E]+|"
     "[\uFF01\u2026\u201C\u201D\u2018\u2019\u2014\uFF1A\uFF1B\uFF0C\u3001-\u303F\uFE30-\uFE4F]+|"
     "[\u3105-\u312F]+|[\u4E00-\u9FA5\u3040-\u309F\u30A0-\u30FF]+"},
    {StepType::kSplit,
     R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+)"
     R"((?i:'s|'t|'re|'ve|'m|'ll|'d)?|)"
     R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*)"
     R"((?i:'s|'t|'re|'ve|'m|'ll|'d)?|\p{N}|)"
     R"( ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)"}};

// Words as in gpt-4o, but Chinese characters are split off.
constexpr GgufPreStep kKimiK2[] = {
    {StepType::kSplit,
     R"([\p{Han}]+|[^\r\n\p{L}\p{N}]?(?:(?!\p{Han})[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}])*)"
     R"((?:(?!\p{Han})[\p{Ll}\p{Lm}\p{Lo}\p{M}])+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|)"
     R"([^\r\n\p{L}\p{N}]?(?:(?!\p{Han})[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}])+)"
     R"((?:(?!\p{Han})[\p{Ll}\p{Lm}\p{Lo}\p{M}])*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\p{N}{1,3}|)"
     R"( ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)"}};

constexpr GgufPreStep kDeepseekLlm[] = {
    {StepType::kSplit, "[\r\n]"},
    {StepType::kSplit,
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
     "]+"},
    {StepType::kSplit, "\\s?[!-/:-~\uFF01-\uFF0F\uFF1A-\uFF5E\u2018-\u201F\u3000-\u3002]+"},
    {StepType::kSplit, "\\s+$"},
    {StepType::kSplit, "[\u4E00-\u9FA5\u0800-\u4E00\uAC00-\uD7FF]+"},
    {StepType::kDigit, {}},
};

constexpr GgufPreStep kDeepseekCoder[] = {
    {StepType::kSplit, "[\r\n]"},
    {StepType::kSplit, "\\s?\\p{L}+"},
    {StepType::kSplit, "\\s?\\p{P}+"},
    {StepType::kSplit, "[\u4E00-\u9FA5\u0800-\u4E00\uAC00-\uD7FF]+"},
    {StepType::kDigit, {}},
};

constexpr std::string_view kDeepseekV3Words =
    "[!\"#$%&'()*+,\\-./"
    ":;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+|[^\r\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+|"
    " ?[\\p{P}\\p{S}]+[\r\n]*|\\s*[\r\n]+|\\s+(?!\\S)|\\s+";
constexpr GgufPreStep kDeepseekV3[] = {
    {StepType::kSplit, "\\p{N}{1,3}"},
    {StepType::kSplit, "[\u4E00-\u9FA5\u3040-\u309F\u30A0-\u30FF]+"},
    {StepType::kSplit, kDeepseekV3Words},
};

constexpr GgufPreStep kAfmoe[] = {
    {StepType::kSplit, R"(\p{N}{1,3}(?=(?:\p{N}{3})*(?!\p{N})))"},
    {StepType::kSplit,
     "[\u4E00-\u9FFF\u3400-\u4DBF\uF900-\uFAFF\u3040-\u309F\u30A0-\u30FF\uFF65-\uFF9F"
     "\u2F00-\u2FDF\u0E40-\u0E7F\u0E80-\u0EFF\u1780-\u17FF\u1000-\u109F\uAA60-\uAA7F"
     "\uA9E0-\uA9FF\uAC00-\uD7AF\u1100-\u11FF]+"},
    {StepType::kSplit, kDeepseekV3Words},
};

constexpr GgufPreStep kFalcon[] = {{StepType::kPunctuation, {}},
                                   {StepType::kGpt2, {}},
                                   {StepType::kDigitRuns, {}},
                                   {StepType::kSplit, "[0-9][0-9][0-9]"}};

constexpr std::string_view kBloomWords =
    " ?[^(\\s|.,!?\u2026\u3002\uFF0C\u3001\u0964\u06D4\u060C)]+";
constexpr GgufPreStep kBloom[] = {{StepType::kSplit, kBloomWords}};
constexpr GgufPreStep kViking[] = {{StepType::kSplit, kBloomWords}, {StepType::kDigit, {}}};

constexpr GgufPreStep kSuperBpe[] = {{StepType::kSplit, R"(\p{N}+)"},
                                     {StepType::kSplit, R"((?=(\d{3})+(?!\d)))"}};

// Name, steps, NFC, ignore_merges, add_bos. gguf_pre_of() takes the first of several equal kinds.
constexpr GgufPreKind kKinds[] = {
    {"gpt-2", kGpt2, false, false, false},
    {"phi-2", kGpt2, false, false, false},
    {"jais", kGpt2, false, false, false},
    {"trillion", kGpt2, false, false, false},
    {"exaone4", kGpt2, false, false, false},
    {"gigachat", kGpt2, false, false, false},
    {"a.x-4.0", kGpt2, false, false, false},
    {"mellum", kGpt2, false, false, false},
    {"granite-docling", kGpt2, false, false, false},
    {"olmo", kGpt2, true, false, false},
    {"mpt", kGpt2, true, false, false},
    {"smollm", kDigitsGpt2, false, false, false},
    {"starcoder", kDigitsGpt2, false, false, false},
    {"refact", kDigitsGpt2, false, false, false},
    {"codeshell", kDigitsGpt2, false, false, false},
    {"exaone", kDigitsGpt2, false, false, false},
    {"minerva-7b", kDigitsGpt2, false, false, false},
    {"mellum2", kDigitsGpt2, false, false, false},
    {"command-r", kDigitsGpt2, true, false, false},
    {"llama-bpe", kLlama3, false, true, true},
    {"llama3", kLlama3, false, true, true},
    {"llama-v3", kLlama3, false, true, true},
    {"falcon3", kLlama3, false, true, true},
    {"falcon-h1", kLlama3, false, true, true},
    {"pixtral", kLlama3, false, true, true},
    {"midm-2.0", kLlama3, false, true, true},
    {"lfm2", kLlama3, false, true, true},
    {"smaug-bpe", kLlama3, false, false, false},
    {"dbrx", kLlama3, false, false, false},
    {"glm4", kLlama3, false, false, false},
    {"chatglm-bpe", kLlama3, false, false, false},
    {"jais-2", kJais2, false, false, false},
    {"minicpm5", kMiniCpm5, false, true, false},
    {"qwen2", kQwen2, true, false, false},
    {"deepseek-r1-qwen", kQwen2, true, false, false},
    {"megrez", kQwen2, true, false, false},
    {"kormo", kQwen2, false, false, false},
    {"stablelm2", kQwen2, false, false, false},
    {"hunyuan", kQwen2, false, false, false},
    {"solar-open", kQwen2, false, false, false},
    {"grok-2", kQwen2, false, false, false},
    {"qwen35", kQwen35, true, false, false},
    {"laguna", kLaguna, false, false, false},
    {"seed-coder", kSeedCoder, false, false, false},
    {"bailingmoe", kBailingMoe, false, false, false},
    {"bailingmoe2", kBailingMoe, false, false, false},
    {"llada-moe", kBailingMoe, false, false, false},
    {"exaone-moe", kExaoneMoe, false, false, false},
    {"tekken", kTekken, false, true, true},
    {"gpt-4o", kGpt4o, false, false, false},
    {"llama4", kGpt4o, false, false, false},
    {"kanana2", kGpt4o, false, false, false},
    {"talkie", kGpt4o, false, false, false},
    {"minimax-m2", kGpt4o, false, false, false},
    {"tiny_aya", kTinyAya, false, false, false},
    {"cohere2moe", kTinyAya, false, false, false},
    {"youtu", kYoutu, false, true, false},
    {"kimi-k2", kKimiK2, false, false, false},
    {"deepseek-llm", kDeepseekLlm, false, false, false},
    {"deepseek-coder", kDeepseekCoder, false, false, false},
    {"deepseek-v3", kDeepseekV3, false, false, false},
    {"hunyuan-dense", kDeepseekV3, false, false, false},
    {"joyai-llm", kDeepseekV3, false, false, false},
    {"afmoe", kAfmoe, false, false, false},
    {"falcon", kFalcon, false, false, false},
    {"bloom", kBloom, false, false, false},
    {"gpt3-finnish", kBloom, false, false, false},
    {"poro-chat", kBloom, false, false, false},
    {"viking", kViking, false, false, false},
    {"superbpe", kSuperBpe, false, false, false},
    {"default", kDefault, false, false, false},
};

json step_json(const GgufPreStep& step) {
  switch (step.type) {
    case StepType::kSplit:
      break;
    case StepType::kDigit:
      return {{"type", "Digits"}, {"individual_digits", true}};
    case StepType::kDigitRuns:
      return {{"type", "Digits"}, {"individual_digits", false}};
    case StepType::kPunctuation:
      return {{"type", "Punctuation"}, {"behavior", "Contiguous"}};
    case StepType::kGpt2:
      return {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"use_regex", true}};
  }
  return {{"type", "Split"},
          {"pattern", {{"Regex", step.pattern}}},
          {"behavior", "Isolated"},
          {"invert", false}};
}

}  // namespace

std::span<const GgufPreKind> gguf_pre_kinds() { return kKinds; }

const GgufPreKind* find_gguf_pre_kind(std::string_view name) {
  const auto* const found =
      std::find_if(std::begin(kKinds), std::end(kKinds),
                   [&](const GgufPreKind& kind) { return kind.name == name; });
  return found == std::end(kKinds) ? nullptr : found;
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
  bool spells_bytes = false;
  for (const GgufPreStep& step : kind.steps) {
    steps.push_back(step_json(step));
    spells_bytes = spells_bytes || step.type == StepType::kGpt2;
  }
  if (!spells_bytes) {
    steps.push_back({{"type", "ByteLevel"}, {"add_prefix_space", false}, {"use_regex", false}});
  }
  return {{"type", "Sequence"}, {"pretokenizers", std::move(steps)}};
}

}  // namespace forerun::text
