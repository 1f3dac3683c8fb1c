// What a chat template takes of a message, found out by rendering.
#pragma once

#include <functional>
#include <string>

#include "forerun/status.h"
#include "server/output/tool_format.h"

namespace forerun::server {

struct TemplateFacts {
  // `content` must be a list of parts; false: it is given as text.
  bool wants_content_parts = false;
  // `arguments` of a tool call stay the JSON text that a client sends, since the template writes
  // that out as it is; false: they become an object, for `tojson` and `items`.
  bool wants_arguments_text = false;
  // `content` beside tool calls must be null; false: it is text.
  bool wants_null_content = false;
  // Ids of tool calls must be nine letters and digits.
  bool wants_nine_character_ids = false;
  // A message may hold one tool call only.
  bool wants_single_calls = false;
  // Whether the tools that a request offers appear in the rendered text.
  bool renders_tools = false;
  // Whether tool calls of earlier messages appear in it.
  bool renders_tool_calls = false;
  // Which form the template writes them in; kNone where they are not rendered or not known.
  ToolFormat tool_format = ToolFormat::kNone;
};

// Renders messages (a JSON list) with tools (a JSON list, or empty), the generation prompt left
// out.
using RenderMessages = std::function<Result<std::string>(const std::string& messages_json,
                                                         const std::string& tools_json)>;

// Renders some ten small conversations and looks at what became of them. A conversation that the
// template refuses is an answer too: this cannot fail.
TemplateFacts probe_template(const RenderMessages& render);

}  // namespace forerun::server
