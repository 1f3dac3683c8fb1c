// Converts messages from the form that OpenAI's clients send to the form that chat templates take.
#pragma once

#include <string>

#include "forerun/status.h"
#include "server/output/template_facts.h"

namespace forerun::server {

// Checks a request's `messages` (a JSON list) and gives them in the shape that a template with
// these facts takes:
// - role "developer" becomes "system";
// - content in parts, of text or a refusal, becomes text (a newline between two parts), or text
//   becomes parts;
// - content null becomes ""; where the facts want it null beside tool calls, content that is there
//   becomes a message of its own before them;
// - `arguments` of tool calls, JSON text or an object, becomes what the facts say; an empty list of
//   tool calls goes, as templates ask whether the member is there;
// - a message with several tool calls becomes as many with one, where the template takes no more;
// - ids become nine characters where they must, the same for a call and its result;
// - a tool's message is given the name of the function it answers, where an earlier call says so;
// - `reasoning_content` and `name` stay, other members are left out.
//
// kInvalidArgument names the first wrong member by its path, what was found and what is accepted,
// such as "messages[2].content[0].type: found \"image_url\"; accepted: \"text\" or
// \"refusal\"".
Result<std::string> normalize_messages(const std::string& messages_json,
                                       const TemplateFacts& facts);

}  // namespace forerun::server
