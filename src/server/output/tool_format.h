// The formats in which checkpoints write tool calls, and the detection of a checkpoint's format.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "forerun/status.h"

namespace forerun::server {

enum class ToolFormat : uint8_t {
  kNone,  // calls are not detected
  // <tool_call>{"name": ..., "arguments": {...}}</tool_call>, one pair of tags per call.
  kHermes,
  // {"name": ..., "parameters": {...}} as the whole answer or after <|python_tag|>, several
  // separated by ';'; also <function=name>{...}</function>, which these checkpoints sometimes
  // write.
  kLlamaJson,
  // Only <function=name>{...}</function>.
  kLlamaFunction,
  // [TOOL_CALLS][{"name": ..., "arguments": {...}}, ...], or for each call
  // [TOOL_CALLS]name[CALL_ID]id[ARGS]{...}, where id and [ARGS] may be missing.
  kMistral,
  // <tool_call><function=name><parameter=key>value</parameter>...</function></tool_call> of
  // Qwen3-Coder, Qwen3.5, Nemotron 3 and, with longer outer tags, Seed-OSS.
  kQwenCoder,
  // <｜tool▁calls▁begin｜><｜tool▁call▁begin｜>... of V3 and R1 (a fenced block) and of V3.1.
  kDeepSeek,
  // A JSON list like Mistral's, between other tags: <|tool_call|> of Granite 3 and Phi-4,
  // <TOOLCALL> of Nemotron Nano, <tool_calls> of Apriel.
  kJsonList,
};

// Returns "none", "hermes", "llama_json", "llama_function", "mistral", "qwen_coder", "deepseek" or
// "json_list".
const char* tool_format_name(ToolFormat format);

// Fails with kInvalidArgument for another name, listing the existing ones.
Result<ToolFormat> tool_format_of_name(std::string_view name);

// Returns the format with tags in a chat template's text, or in a rendered message with tool calls.
// The latter is more reliable: a text may name tags that it does not write. Returns kNone if there
// is no tag or the tags belong to another format: calls then stay content.
ToolFormat detect_tool_format(std::string_view template_text);

// Returns the texts that identify a format's calls. If one of them is a special token of a
// tokenizer, text without special tokens has lost the call.
std::span<const std::string_view> tool_format_tags(ToolFormat format);

// Returns whether the published checkpoints of a format have special tokens among its tags, so that
// a request must include them in its text (and end tokens must be removed, see AssistantOutput).
// Formats with tags of plain text, or of added tokens that are not special, need nothing.
bool tool_format_needs_special_tokens(ToolFormat format);

// Makes an id for a new call from 64 random bits: nine letters and digits for Mistral's templates,
// which accept no other, elsewhere "call_" and 24 of them. The same bits give the same id.
std::string make_tool_call_id(ToolFormat format, uint64_t random_bits);

}  // namespace forerun::server
