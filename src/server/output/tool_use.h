// The tools of a chat request: those that it offers, and those that the model may or must call.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "forerun/status.h"

namespace forerun::server {

struct OfferedTool {
  std::string name;
  std::string parameters_json;  // the JSON schema of its arguments, an object; "{}" if not given
  bool strict = false;          // arguments must follow the schema
  // The schema's path in the request, such as "tools[0].function.parameters".
  std::string parameters_path = {};
};

struct ToolUse {
  enum class Choice : uint8_t {
    kNone,      // no calls
    kAuto,      // the model chooses
    kRequired,  // one call of any offered tool, or several if asked for
    kNamed,     // one call of the one tool in `callable`
  };

  Choice choice = Choice::kNone;
  bool parallel = true;  // several calls may follow each other
  // The tools in the form for chat templates, [{"type": "function", "function": {...}}, ...]; empty
  // if no tool is offered.
  std::string tools_json;
  // The tools that may be called, in the order of the request; empty for kNone.
  std::vector<OfferedTool> callable;
};

// Reads the members `tools`, `tool_choice` and `parallel_tool_calls` of a request, as JSON texts
// that are empty if absent. Tools may have both of OpenAI's forms, with a member `function` (chat)
// and without (responses). tool_choice is "none", "auto", "required", {"type": "function",
// "function": {"name": ...}}, {"type": "function", "name": ...} or {"type": "allowed_tools", ...}.
// Default: "auto" with tools, "none" without.
//
// Fails with kInvalidArgument; the message has the path of the wrong member, what was found and
// what is accepted. Fails with kUnsupported if a tool is not a function.
Result<ToolUse> read_tool_use(const std::string& tools_json, const std::string& tool_choice_json,
                              std::optional<bool> parallel_tool_calls);

}  // namespace forerun::server
