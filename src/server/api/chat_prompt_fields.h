// Code that the chat endpoints share: turns a conversation with tools into a prompt, and determines
// how its answer is parsed.
#pragma once

#include <optional>
#include <string>

#include "forerun/request.h"
#include "server/api/api_error.h"
#include "server/api/chat_format.h"
#include "server/json.h"
#include "server/output/assistant_output.h"

namespace forerun::server {

struct Conversation {
  Json messages = Json::array();
  Json tools;        // a list, or null
  Json tool_choice;  // may be null
  std::optional<bool> parallel_tool_calls;
  Json template_variables;  // an object, or null
  bool add_generation_prompt = true;
  bool tools_may_be_missing = false;    // allowed with a tool_choice of "auto"
  bool continue_final_message = false;  // the answer continues the text of the last message
};

// Renders the conversation into `request` and fills in how to parse the answer; returns an error if
// the conversation has one. `names` maps this function's names, such as "messages[0]", to the
// client's; the engine's names for the schemas of forced calls are added to it.
std::optional<ApiError> make_chat_prompt(const Engine& engine, const ChatFormat& format,
                                         const Conversation& conversation, ParamNames& names,
                                         Request& request, AssistantOutputOptions& output);

}  // namespace forerun::server
