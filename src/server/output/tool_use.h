// The tools of a chat request: those that are offered, and those that the model may or must call.
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
  // Where the request has the schema: "tools[0].function.parameters".
  std::string parameters_path = {};
};

struct ToolUse {
  enum class Choice : uint8_t {
    kNone,      // no calls
    kAuto,      // the model chooses
    kRequired,  // one call of any offered tool, or more where they are asked for
    kNamed,     // one call of the one tool in `callable`
  };

  Choice choice = Choice::kNone;
  bool parallel = true;  // more than one call may come
  // The tools in the form for chat templates, [{"type": "function", "function": {...}}, ...]; empty
  // if no tool is offered.
  std::string tools_json;
  // Those that may be called, in the order of the request; empty for kNone.
  std::vector<OfferedTool> callable;
};

// Reads the members `tools`, `tool_choice` and `parallel_tool_calls` of a request, as JSON texts
// and empty where they are absent. Tools are taken in both of OpenAI's shapes, with a member
// `function` (chat) and without (responses). tool_choice: "none", "auto", "required", {"type":
// "function", "function": {"name": ...}} or {"type": "function", "name": ...}, or {"type":
// "allowed_tools",
// ...}. Default: "auto" with tools, "none" without.
//
// kInvalidArgument names the wrong member by its path, what was found and what is accepted; a tool
// that is no function is kUnsupported.
Result<ToolUse> read_tool_use(const std::string& tools_json, const std::string& tool_choice_json,
                              std::optional<bool> parallel_tool_calls);

}  // namespace forerun::server
