#include "server/output/tool_format.h"

#include <array>

#include "server/output/named_rows.h"

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

constexpr std::string_view kJsonListTags[] = {"<|tool_call|>", "<|/tool_call|>", "<TOOLCALL>",
                                              "</TOOLCALL>",   "<tool_calls>",   "</tool_calls>"};

struct ToolRow {
  ToolFormat format;
  const char* name;
  std::span<const std::string_view> tags;
  // Whether the tokenizers of Llama 3.1 and Mistral v0.3 have it as a special token; for others it
  // differs by checkpoint.
  bool special;
};

constexpr std::array<ToolRow, 8> kToolFormats = {{
    {ToolFormat::kNone, "none", {}, false},
    {ToolFormat::kHermes, "hermes", kHermesTags, false},
    {ToolFormat::kLlamaJson, "llama_json", kLlamaJsonTags, true},
    {ToolFormat::kLlamaFunction, "llama_function", kLlamaFunctionTags, false},
    {ToolFormat::kMistral, "mistral", kMistralTags, true},
    {ToolFormat::kQwenCoder, "qwen_coder", kQwenCoderTags, false},
    {ToolFormat::kDeepSeek, "deepseek", kDeepSeekTags, true},
    {ToolFormat::kJsonList, "json_list", kJsonListTags, true},
}};

const ToolRow& row_of(ToolFormat format) {
  for (const ToolRow& row : kToolFormats) {
    if (row.format == format) return row;
  }
  return kToolFormats[0];
}

bool contains(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

// Returns whether the text has {"name": ..., "parameters": ...} without a member between, unlike a
// definition of a tool.
bool names_parameters_next(std::string_view text) {
  constexpr std::string_view kName = "{\"name\": ";
  for (size_t at = text.find(kName); at != std::string_view::npos; at = text.find(kName, at + 1)) {
    const std::string_view rest = text.substr(at + kName.size());
    if (rest.substr(0, rest.find("\": ")).ends_with("\"parameters")) return true;
  }
  return false;
}

}  // namespace

const char* tool_format_name(ToolFormat format) { return row_of(format).name; }

Result<ToolFormat> tool_format_of_name(std::string_view name) {
  return format_of_name(kToolFormats, "tool format", name);
}

ToolFormat detect_tool_format(std::string_view template_text) {
  const auto has = [template_text](std::string_view part) { return contains(template_text, part); };
  if (has("<｜tool▁call▁begin｜>")) return ToolFormat::kDeepSeek;
  if (has("[TOOL_CALLS]")) return ToolFormat::kMistral;
  // Calls of other formats, some of them within the same outer tags: GLM's and MiniMax's.
  if (has("<arg_key>") || has("<invoke name=")) return ToolFormat::kNone;
  if (has("<function=") && has("<parameter=")) return ToolFormat::kQwenCoder;
  if (has("<tool_call>")) return ToolFormat::kHermes;
  if (has("<|tool_call|>[") || has("<TOOLCALL>[") || has("<tool_calls>["))
    return ToolFormat::kJsonList;
  if (has("<|python_tag|>")) return ToolFormat::kLlamaJson;
  if (has("<function=")) return ToolFormat::kLlamaFunction;
  return names_parameters_next(template_text) ? ToolFormat::kLlamaJson : ToolFormat::kNone;
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
    // One step of the SplitMix64 generator per digit.
    random_bits += 0x9e3779b97f4a7c15u;
    uint64_t mixed = random_bits;
    mixed = (mixed ^ (mixed >> 30)) * 0xbf58476d1ce4e5b9u;
    mixed = (mixed ^ (mixed >> 27)) * 0x94d049bb133111ebu;
    id += kDigits[(mixed ^ (mixed >> 31)) % kDigits.size()];
  }
  return id;
}

}  // namespace forerun::server
