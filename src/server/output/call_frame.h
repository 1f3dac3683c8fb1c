// CallFrame: the text around the names and arguments of tool calls, for grammars that make a model
// call a tool, and for other code that writes calls.
#pragma once

#include <string>
#include <string_view>

#include "server/output/tool_format.h"

namespace forerun::server {

// Calls are written as
//   before_all (before_name NAME before_arguments ARGUMENTS after_arguments) joined by `between`
//   after_all
// NAME and ARGUMENTS as in JSON, the name without its quotes. AssistantOutput reads the same calls
// from it. `more_than_one` is false where the format's templates take one call only.
struct CallFrame {
  std::string_view before_all, before_name, before_arguments, after_arguments, between, after_all;
  bool more_than_one = true;
};

// The form closest to what the checkpoints of a format write; all empty for kNone. Qwen3-Coder's
// arguments are no JSON, so that its calls are written as Hermes' are.
CallFrame call_frame(ToolFormat format);

}  // namespace forerun::server
