#include "server/api/responses.h"

#include <utility>

#include "json/field_reader.h"
#include "server/api/chat_prompt_fields.h"
#include "server/api/format_fields.h"
#include "server/api/generation_fields.h"
#include "server/api/response_writer.h"
#include "server/json.h"

namespace forerun::server {
namespace {

std::string text_of(const Json& item, const char* name) {
  const auto found = item.find(name);
  return found != item.end() && found->is_string() ? found->get<std::string>() : std::string();
}

// Parts of input and output text are parts of text to a chat.
Json content_of(const Json& content) {
  if (!content.is_array()) return content;
  Json parts = Json::array();
  for (Json part : content) {
    const std::string type = part.is_object() ? text_of(part, "type") : "";
    if (type == "input_text" || type == "output_text") part["type"] = "text";
    parts.push_back(std::move(part));
  }
  return parts;
}

// Calls of one turn are one message, their results a message each.
void append_call(Json& messages, const Json& item) {
  const bool joins = !messages.empty() && messages.back().contains("tool_calls");
  if (!joins) {
    messages.push_back(
        {{"role", "assistant"}, {"content", nullptr}, {"tool_calls", Json::array()}});
  }
  messages.back()["tool_calls"].push_back(
      {{"id", text_of(item, "call_id")},
       {"type", "function"},
       {"function", {{"name", text_of(item, "name")}, {"arguments", text_of(item, "arguments")}}}});
}

// An item of "input" as the messages of a chat.
void append_item(OrderedFieldReader& fields, Json& messages, const Json& item) {
  if (!item.is_object()) return fields.refuse("input", "a string or a list of items");
  const std::string type = item.contains("type") ? text_of(item, "type") : "message";
  if (type == "message") {
    Json message = {{"role", item.contains("role") ? item["role"] : Json()}};
    message["content"] = item.contains("content") ? content_of(item["content"]) : Json();
    messages.push_back(std::move(message));
  } else if (type == "function_call") {
    append_call(messages, item);
  } else if (type == "function_call_output") {
    Json message = {{"role", "tool"}, {"tool_call_id", text_of(item, "call_id")}};
    message["content"] = item.contains("output") ? content_of(item["output"]) : Json();
    messages.push_back(std::move(message));
  } else if (type != "reasoning") {  // earlier reasoning is not shown to models again
    fields.refuse("input",
                  "items of the types message, function_call, function_call_output, reasoning");
  }
}

void read_input(OrderedFieldReader& fields, Conversation& conversation) {
  conversation.messages = Json::array();
  if (const auto instructions = fields.string("instructions")) {
    conversation.messages.push_back({{"role", "system"}, {"content", *instructions}});
  }
  const Json* const input = fields.any("input");
  if (input == nullptr || !(input->is_string() || input->is_array())) {
    return fields.refuse("input", "a string or a list of items");
  }
  if (input->is_string()) {
    conversation.messages.push_back({{"role", "user"}, {"content", *input}});
    return;
  }
  for (const Json& item : *input) append_item(fields, conversation.messages, item);
}

void refuse_what_is_not_done(OrderedFieldReader& fields) {
  for (const char* const name : {"previous_response_id", "conversation", "prompt"}) {
    if (fields.any(name) != nullptr) {
      fields.refuse(name, "null; nothing is stored; send the whole conversation as \"input\"");
    }
  }
  if (fields.boolean("background").value_or(false)) fields.refuse("background", "false");
}

void read_text_format(OrderedFieldReader& fields, OutputFormat& format) {
  if (auto text = fields.object("text")) read_response_format(*text, "format", format);
}

}  // namespace

std::variant<GenerationCall, ApiError> read_response(const Engine& engine, const ServerFacts& facts,
                                                     const ChatFormat& format,
                                                     const std::string& body,
                                                     const std::string& call_id) {
  Json object;
  if (const auto error = parse_call(body, facts, &object)) return *error;
  OrderedFieldReader fields{OrderedJsonValue(&object)};
  Request request;
  Conversation conversation;
  ResponseEcho echo;
  read_generation(fields, facts, request);
  request.num_samples = 1;
  request.max_new_tokens =
      static_cast<int32_t>(fields.integer("max_output_tokens", 1, INT32_MAX).value_or(INT32_MAX));
  const bool stream = fields.boolean("stream").value_or(false);
  refuse_what_is_not_done(fields);
  read_text_format(fields, request.output_format);
  read_input(fields, conversation);
  if (const Json* const tools = fields.any_list("tools")) conversation.tools = *tools;
  if (const Json* const choice = fields.any("tool_choice")) conversation.tool_choice = *choice;
  conversation.parallel_tool_calls = fields.boolean("parallel_tool_calls");
  for (const char* const name : {"instructions", "tools", "tool_choice", "parallel_tool_calls",
                                 "metadata", "temperature", "top_p", "max_output_tokens"}) {
    if (const Json* const given = fields.any(name)) echo.fields[name] = *given;
  }
  if (!fields.ok()) return api_error(fields.status());
  AssistantOutputOptions output;
  if (const auto error = make_chat_prompt(engine, format, conversation, request, output)) {
    return *error;
  }
  GenerationCall call;
  call.writer = make_response_writer(facts, stream, std::move(echo), output, call_id);
  call.prompts.push_back(std::move(request));
  return call;
}

}  // namespace forerun::server
