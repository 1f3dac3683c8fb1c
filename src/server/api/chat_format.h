// The formats of the checkpoint's chat template and answers, detected once at start-up.
#pragma once

#include <memory>
#include <string>

#include "forerun/control_text.h"
#include "forerun/engine.h"
#include "server/output/reasoning_format.h"
#include "server/output/template_facts.h"
#include "server/output/tool_format.h"

namespace forerun::server {

struct ChatFormat {
  std::shared_ptr<const ControlText> control;
  bool has_template = false;
  TemplateFacts facts;
  ToolFormat tools = ToolFormat::kNone;
  bool names_tools = false;  // --tool-format named the format, in place of the template
  ReasoningFormat reasoning = ReasoningFormat::kNone;
  bool reasoning_is_special = false;  // its tags are special tokens, which output texts leave out
};

// `tool_format` and `reasoning_format` are format names, or "auto" to detect the template's. Fails
// with kInvalidArgument for other names.
Result<ChatFormat> find_chat_format(const Engine& engine, const std::string& tool_format,
                                    const std::string& reasoning_format);

}  // namespace forerun::server
