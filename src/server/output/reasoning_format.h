// The tags by which a checkpoint marks its reasoning before an answer.
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

// "none", "think", "think_box", "seed".
const char* reasoning_format_name(ReasoningFormat format);

// kInvalidArgument for another name, with those that there are.
Result<ReasoningFormat> reasoning_format_of_name(std::string_view name);

// The format whose tags stand in a chat template's text; kNone where there is none.
ReasoningFormat detect_reasoning_format(std::string_view template_text);

// Whether published checkpoints have the tags as special tokens (Magistral).
bool reasoning_format_needs_special_tokens(ReasoningFormat format);

// True where the prompt as it was rendered has opened the section: it ends with the opening tag and
// white space, so that the model's text begins inside.
bool prompt_opens_reasoning(ReasoningFormat format, std::string_view rendered_prompt);

}  // namespace forerun::server
