#include "server/output/tool_format.h"

#include <array>

namespace forerun::server {
namespace {

constexpr std::string_view kHermesTags[] = {"<tool_call>", "</tool_call>"};
constexpr std::string_view kLlamaJsonTags[] = {"<|python_tag|>", "<function=", "</function>"};
constexpr std::string_view kLlamaFunctionTags[] = {"<function=", "</function>"};
constexpr std::string_view kMistralTags[] = {"[TOOL_CALLS]", "[CALL_ID]", "[ARGS]"};
constexpr std::string_view kQwenCoderTags[] = {
    "<tool_call>", "</tool_call>", "<function=", "</function>", "<parameter=", "</parameter>"};
constexpr std::string_view kDeepSeekTags[] = {"<｜tool▁calls▁begin｜>", "<｜tool▁calls▁end｜>",
                                              "<｜tool▁call▁begin｜>", "<｜tool▁call▁end｜>",
                                              "<｜tool▁sep｜>"};

struct FormatRow {
  ToolFormat format;
  const char* name;
  std::span<const std::string_view> tags;
  // Special in the tokenizers of Llama 3.1 and Mistral v0.3; of DeepSeek's it differs by version.
  bool special;
};

constexpr std::array<FormatRow, 7> kFormats = {{
    {ToolFormat::kNone, "none", {}, false},
    {ToolFormat::kHermes, "hermes", kHermesTags, false},
    {ToolFormat::kLlamaJson, "llama_json", kLlamaJsonTags, true},
    {ToolFormat::kLlamaFunction, "llama_function", kLlamaFunctionTags, false},
    {ToolFormat::kMistral, "mistral", kMistralTags, true},
    {ToolFormat::kQwenCoder, "qwen_coder", kQwenCoderTags, false},
    {ToolFormat::kDeepSeek, "deepseek", kDeepSeekTags, true},
}};

const FormatRow& row_of(ToolFormat format) {
  for (const FormatRow& row : kFormats) {
    if (row.format == format) return row;
  }
  return kFormats[0];
}

bool contains(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

}  // namespace

const char* tool_format_name(ToolFormat format) { return row_of(format).name; }

Result<ToolFormat> tool_format_of_name(std::string_view name) {
  std::string accepted;
  for (const FormatRow& row : kFormats) {
    if (name == row.name) return row.format;
    accepted += accepted.empty() ? "" : ", ";
    accepted += row.name;
  }
  return Status(StatusCode::kInvalidArgument,
                "tool format: found '" + std::string(name) + "', accepted are " + accepted);
}

ToolFormat detect_tool_format(std::string_view template_text) {
  if (contains(template_text, "<｜tool▁call▁begin｜>")) return ToolFormat::kDeepSeek;
  if (contains(template_text, "[TOOL_CALLS]")) return ToolFormat::kMistral;
  if (contains(template_text, "<tool_call>")) {
    // GLM's calls have the same outer tags around pairs of their own.
    if (contains(template_text, "<arg_key>")) return ToolFormat::kNone;
    return contains(template_text, "<function=") ? ToolFormat::kQwenCoder : ToolFormat::kHermes;
  }
  if (contains(template_text, "<|python_tag|>")) return ToolFormat::kLlamaJson;
  if (contains(template_text, "<function=")) return ToolFormat::kLlamaFunction;
  if (contains(template_text, "{\"name\": ") && contains(template_text, "\"parameters\": ")) {
    return ToolFormat::kLlamaJson;
  }
  return ToolFormat::kNone;
}

std::span<const std::string_view> tool_format_tags(ToolFormat format) {
  return row_of(format).tags;
}

bool tool_format_needs_special_tokens(ToolFormat format) { return row_of(format).special; }

std::string make_tool_call_id(ToolFormat format, uint64_t random_bits) {
  constexpr std::string_view kDigits =
      "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
  const bool is_short = format == ToolFormat::kMistral;
  std::string id = is_short ? "" : "call_";
  for (int digit = is_short ? 9 : 24; digit > 0; --digit) {
    // One step of the SplitMix64 generator a digit.
    random_bits += 0x9e3779b97f4a7c15u;
    uint64_t mixed = random_bits;
    mixed = (mixed ^ (mixed >> 30)) * 0xbf58476d1ce4e5b9u;
    mixed = (mixed ^ (mixed >> 27)) * 0x94d049bb133111ebu;
    id += kDigits[(mixed ^ (mixed >> 31)) % kDigits.size()];
  }
  return id;
}

}  // namespace forerun::server
