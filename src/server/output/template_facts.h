// The forms of messages that a chat template accepts, found out by rendering test messages.
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
  // The form in which the template writes tool calls; kNone where they are not rendered or not
  // known.
  ToolFormat tool_format = ToolFormat::kNone;
};

// Renders messages (a JSON list) with tools (a JSON list, or empty), the generation prompt left
// out.
using RenderMessages = std::function<Result<std::string>(const std::string& messages_json,
                                                         const std::string& tools_json)>;

// Renders some ten small conversations and examines the results. A refusal by the template is a
// result, too, so this cannot fail.
TemplateFacts probe_template(const RenderMessages& render);

}  // namespace forerun::server
