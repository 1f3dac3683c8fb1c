// The formats in which checkpoints write tool calls, and the detection of a checkpoint's format.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "forerun/status.h"

namespace forerun::server {

enum class ToolFormat : uint8_t {
  kNone,  // calls are not looked for
  // <tool_call>{"name": ..., "arguments": {...}}</tool_call>, one pair of tags a call.
  kHermes,
  // {"name": ..., "parameters": {...}} as the whole answer or after <|python_tag|>, several with
  // ';' between them; <function=name>{...}</function> too, which these checkpoints write at times.
  kLlamaJson,
  // Only <function=name>{...}</function>.
  kLlamaFunction,
  // [TOOL_CALLS][{"name": ..., "arguments": {...}}, ...], or for each call
  // [TOOL_CALLS]name[CALL_ID]id[ARGS]{...}, of which id and [ARGS] may be missing.
  kMistral,
  // <tool_call><function=name><parameter=key>value</parameter>...</function></tool_call>, of
  // Qwen3-Coder, Qwen3.5, Nemotron 3 and, with longer outer tags, Seed-OSS.
  kQwenCoder,
  // <｜tool▁calls▁begin｜><｜tool▁call▁begin｜>..., of V3 and R1 (a fenced block) and of V3.1.
  kDeepSeek,
  // A JSON list like Mistral's, between other tags: <|tool_call|> of Granite 3 and Phi-4,
  // <TOOLCALL> of Nemotron Nano, <tool_calls> of Apriel.
  kJsonList,
};

// "none", "hermes", "llama_json", "llama_function", "mistral", "qwen_coder", "deepseek",
// "json_list".
const char* tool_format_name(ToolFormat format);

// kInvalidArgument for another name, with those that there are.
Result<ToolFormat> tool_format_of_name(std::string_view name);

// The format whose tags stand in a chat template's text, or in what it renders of a message with
// tool calls. The latter is surer: a text may name tags that it does not write. kNone where there
// is none or the tags are another's: calls then stay content.
ToolFormat detect_tool_format(std::string_view template_text);

// The texts that a format's calls are recognised by. Where one of them is a special token of a
// tokenizer, text without special tokens has lost the call.
std::span<const std::string_view> tool_format_tags(ToolFormat format);

// Whether the published checkpoints of a format have special tokens among its tags, so that a
// request must ask for them in its text (and end tokens are to be removed, see AssistantOutput).
// A form whose tags are plain text, or added tokens that are not special, needs nothing.
bool tool_format_needs_special_tokens(ToolFormat format);

// An id for a new call from 64 random bits: nine letters and digits for Mistral's templates, which
// accept no other, "call_" and 24 of them elsewhere. The same bits give the same id.
std::string make_tool_call_id(ToolFormat format, uint64_t random_bits);

}  // namespace forerun::server
