#include "server/api/chat_format.h"

#include <algorithm>
#include <string>
#include <vector>

namespace forerun::server {
namespace {

// Returns whether the format's tags are special tokens in its published checkpoints or in this one.
bool has_special_tags(const Engine& engine, ReasoningFormat format) {
  const ReasoningTags tags = reasoning_tags(format);
  if (tags.close.empty() || reasoning_format_needs_special_tokens(format)) {
    return !tags.close.empty();
  }
  const std::vector<std::string> control = engine.control_tokens();
  return std::any_of(control.begin(), control.end(), [&](const std::string& name) {
    return name == tags.open || name == tags.close;
  });
}

}  // namespace

Result<ChatFormat> find_chat_format(const Engine& engine, const std::string& tool_format,
                                    const std::string& reasoning_format) {
  ChatFormat format;
  format.control = std::make_shared<ControlText>(engine);
  const std::string text = engine.chat_template();
  format.has_template = !text.empty();
  if (format.has_template) {
    format.facts = probe_template([&](const std::string& messages, const std::string& tools) {
      ChatPrompt prompt;
      prompt.messages_json = messages;
      prompt.tools_json = tools;
      prompt.add_generation_prompt = false;
      return engine.apply_chat_template(prompt);
    });
    format.tools = format.facts.tool_format != ToolFormat::kNone ? format.facts.tool_format
                                                                 : detect_tool_format(text);
    format.reasoning = detect_reasoning_format(text);
  }
  if (tool_format != "auto") {
    const Result<ToolFormat> named = tool_format_of_name(tool_format);
    if (!named.ok()) return named.status();
    format.tools = *named;
    format.names_tools = *named != ToolFormat::kNone;
  }
  if (reasoning_format != "auto") {
    const Result<ReasoningFormat> named = reasoning_format_of_name(reasoning_format);
    if (!named.ok()) return named.status();
    format.reasoning = *named;
  }
  format.reasoning_is_special = has_special_tags(engine, format.reasoning);
  return format;
}

}  // namespace forerun::server
