// The tags that mark a checkpoint's reasoning before an answer.
#pragma once

#include <cstdint>
#include <string_view>

#include "forerun/status.h"

namespace forerun::server {

enum class ReasoningFormat : uint8_t {
  kNone,      // all text is content
  kThink,     // <think>...</think>: Qwen3, DeepSeek R1 and its distills
  kThinkBox,  // [THINK]...[/THINK]: Magistral
  kSeed,      // <seed:think>...</seed:think>
};

struct ReasoningTags {
  std::string_view open, close;  // both empty for kNone
};
ReasoningTags reasoning_tags(ReasoningFormat format);

// Returns "none", "think", "think_box" or "seed".
const char* reasoning_format_name(ReasoningFormat format);

// Fails with kInvalidArgument for another name, listing the existing ones.
Result<ReasoningFormat> reasoning_format_of_name(std::string_view name);

// Returns the format with tags in a chat template's text; kNone if there is none.
ReasoningFormat detect_reasoning_format(std::string_view template_text);

// Returns whether the tags are special tokens in published checkpoints (Magistral).
bool reasoning_format_needs_special_tokens(ReasoningFormat format);

// Returns true if the rendered prompt has opened the reasoning: it ends with the opening tag and
// white space, so that the model's text begins inside.
bool prompt_opens_reasoning(ReasoningFormat format, std::string_view rendered_prompt);

}  // namespace forerun::server
