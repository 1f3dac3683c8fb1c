// CallFrame has the text around the names and arguments of tool calls, for grammars that make a
// model call a tool, and for other code that writes calls.
#pragma once

#include <string>
#include <string_view>

#include "server/output/tool_format.h"

namespace forerun::server {

// A call is written as
//   before_all (before_name NAME before_arguments ARGUMENTS after_arguments) joined by `between`
//   after_all
// NAME and ARGUMENTS are JSON, the name without its quotes. AssistantOutput parses this text to the
// same calls. `more_than_one` is false if the format's templates accept only one call.
struct CallFrame {
  std::string_view before_all, before_name, before_arguments, after_arguments, between, after_all;
  bool more_than_one = true;
};

// Returns the form closest to the checkpoints' own; all empty for kNone. Qwen3-Coder's arguments
// are not JSON, so its calls are written like Hermes' calls.
CallFrame call_frame(ToolFormat format);

}  // namespace forerun::server
