// The forms of messages that a chat template accepts, detected by rendering test messages.
#pragma once

#include <functional>
#include <string>

#include "forerun/status.h"
#include "server/output/tool_format.h"

namespace forerun::server {

struct TemplateFacts {
  // `content` must be a list of parts; false: it must be text.
  bool wants_content_parts = false;
  // `arguments` of a tool call stay the JSON text of the client, since the template copies it;
  // false: they become an object, for `tojson` and `items`.
  bool wants_arguments_text = false;
  // `content` beside tool calls must be null; false: it is text.
  bool wants_null_content = false;
  // Ids of tool calls must be nine letters and digits.
  bool wants_nine_character_ids = false;
  // A message may contain only one tool call.
  bool wants_single_calls = false;
  // Whether the tools of a request appear in the rendered text.
  bool renders_tools = false;
  // Whether tool calls of earlier messages appear in it.
  bool renders_tool_calls = false;
  // The format in which the template writes tool calls; kNone if they are not rendered or unknown.
  ToolFormat tool_format = ToolFormat::kNone;
};

// Renders messages (a JSON list) with tools (a JSON list, or empty), without the generation prompt.
using RenderMessages = std::function<Result<std::string>(const std::string& messages_json,
                                                         const std::string& tools_json)>;

// Renders about ten small conversations and examines the results. A refusal by the template is also
// a result, so this cannot fail.
TemplateFacts probe_template(const RenderMessages& render);

}  // namespace forerun::server
