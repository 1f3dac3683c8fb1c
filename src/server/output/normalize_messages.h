// Converts messages from the form of OpenAI's clients to the form of chat templates.
#pragma once

#include <string>

#include "forerun/status.h"
#include "server/output/template_facts.h"

namespace forerun::server {

// Checks a request's `messages` (a JSON list) and converts them to the form that a template with
// these facts accepts:
// - role "developer" becomes "system";
// - content in parts, of text or a refusal, becomes text (parts are joined by a newline), or text
//   becomes parts;
// - content null becomes ""; if the facts want it null beside tool calls, existing content becomes
//   a message of its own before them;
// - `arguments` of tool calls, JSON text or an object, become what the facts say; an empty list of
//   tool calls is removed, as templates ask whether the member is there;
// - a message with several tool calls becomes several messages with one each, if the template
//   accepts only one;
// - ids become nine characters if they must, the same for a call and its result;
// - a tool's message gets the name of the function that it answers, if an earlier call has it;
// - `reasoning_content` and `name` stay, other members are removed.
//
// Fails with kInvalidArgument; the message has the path of the first wrong member, what was found
// and what is accepted, such as "messages[2].content[0].type: found \"image_url\"; accepted:
// \"text\" or \"refusal\"".
Result<std::string> normalize_messages(const std::string& messages_json,
                                       const TemplateFacts& facts);

}  // namespace forerun::server
