// Code shared by the chat endpoints: turns a conversation with tools into a prompt, and determines
// how its answer is read.
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
  bool tools_may_be_missing = false;    // beside a tool_choice of "auto"
  bool continue_final_message = false;  // the answer continues the text of the last message
};

// Renders the conversation into `request` and fills in how the answer is to be read; returns what
// is wrong with the conversation, if anything. `names`: where the client wrote what this function
// calls "messages[0]" and so on; the engine's names for the schemas of forced calls are added to
// it.
std::optional<ApiError> make_chat_prompt(const Engine& engine, const ChatFormat& format,
                                         const Conversation& conversation, ParamNames& names,
                                         Request& request, AssistantOutputOptions& output);

}  // namespace forerun::server
