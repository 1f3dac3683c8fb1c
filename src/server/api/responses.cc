#include "server/api/responses.h"

#include <algorithm>
#include <array>
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

// Turns parts "input_text" and "output_text" into a chat's parts "text".
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

Json member_of(const Json& item, const char* name) {
  const auto found = item.find(name);
  return found != item.end() ? *found : Json();
}

// Reads "input" into messages, and records which part of "input" each message came from.
class InputReader {
 public:
  InputReader(OrderedFieldReader& fields, Json& messages, ParamNames& names)
      : fields_(fields), messages_(messages), names_(names) {}

  void add_text(const char* role, const std::string& text, const char* path) {
    messages_.push_back({{"role", role}, {"content", text}});
    name("", path);
    name(".content", path);
  }
  void add_item(const Json& item, const std::string& path);

 private:
  // Reports an error at `member` of the last message at `path`.
  void name(const std::string& member, const std::string& path) {
    names_.emplace_back("messages[" + std::to_string(messages_.size() - 1) + "]" + member, path);
  }
  void add_call(const Json& item, const std::string& path);

  OrderedFieldReader& fields_;
  Json& messages_;
  ParamNames& names_;
};

// Adds a call. The calls of one turn form one message; each result is a message of its own.
void InputReader::add_call(const Json& item, const std::string& path) {
  const bool joins = !messages_.empty() && messages_.back().contains("tool_calls");
  if (!joins) {
    messages_.push_back(
        {{"role", "assistant"}, {"content", nullptr}, {"tool_calls", Json::array()}});
  }
  Json& calls = messages_.back()["tool_calls"];
  const std::string call = ".tool_calls[" + std::to_string(calls.size()) + "]";
  name(call, path);
  name(call + ".id", path + ".call_id");
  name(call + ".function", path);
  Json made = {{"type", "function"}};
  made["id"] = member_of(item, "call_id");
  made["function"]["name"] = member_of(item, "name");
  made["function"]["arguments"] = member_of(item, "arguments");
  calls.push_back(std::move(made));
}

void InputReader::add_item(const Json& item, const std::string& path) {
  if (!item.is_object()) {
    return fields_.refuse(path, "an object", StatusCode::kInvalidArgument,
                          OrderedJsonValue(&item).described());
  }
  const Json type = item.contains("type") ? item["type"] : Json("message");
  if (type == "message") {
    Json message;
    message["role"] = member_of(item, "role");
    message["content"] = content_of(member_of(item, "content"));
    messages_.push_back(std::move(message));
    name("", path);
  } else if (type == "function_call") {
    add_call(item, path);
  } else if (type == "function_call_output") {
    Json message = {{"role", "tool"}};
    message["tool_call_id"] = member_of(item, "call_id");
    message["content"] = content_of(member_of(item, "output"));
    messages_.push_back(std::move(message));
    name("", path);
    name(".tool_call_id", path + ".call_id");
    name(".content", path + ".output");
  } else if (type != "reasoning") {  // models do not see earlier reasoning again
    fields_.refuse(path + ".type",
                   "\"message\", \"function_call\", \"function_call_output\" or \"reasoning\"",
                   StatusCode::kInvalidArgument, OrderedJsonValue(&type).described());
  }
}

void read_input(OrderedFieldReader& fields, Conversation& conversation, ParamNames& names) {
  conversation.messages = Json::array();
  names.emplace_back("messages", "input");
  InputReader reader(fields, conversation.messages, names);
  if (const auto instructions = fields.string("instructions")) {
    reader.add_text("system", *instructions, "instructions");
  }
  const Json* const input = fields.any("input");
  if (input == nullptr || !(input->is_string() || input->is_array())) {
    return fields.refuse("input", "a string or a list of items");
  }
  if (input->is_string()) return reader.add_text("user", input->get<std::string>(), "input");
  for (size_t idx = 0; idx < input->size(); ++idx) {
    reader.add_item((*input)[idx], "input[" + std::to_string(idx) + "]");
  }
}

// Reads OpenAI's fields: the answer has the text's log-probabilities if "include" names them or
// "top_logprobs" is above 0. Other values of "include" have no effect.
void read_response_logprobs(OrderedFieldReader& fields, const ServerFacts& facts,
                            Request& request) {
  const auto top = fields.integer("top_logprobs", 0, facts.options.max_logprobs);
  bool wanted = top.value_or(0) > 0;
  if (const auto include = fields.strings("include")) {
    for (size_t idx = 0; idx < include->size(); ++idx) {
      const std::string& name = (*include)[idx];
      constexpr std::array kOthers = {
          "code_interpreter_call.outputs", "computer_call_output.output.image_url",
          "file_search_call.results",      "message.input_image.image_url",
          "reasoning.encrypted_content",   "web_search_call.action.sources",
          "web_search_call.results"};
      const bool is_ours = name == "message.output_text.logprobs";
      wanted = wanted || is_ours;
      if (is_ours || std::count(kOthers.begin(), kOthers.end(), name) > 0) continue;
      fields.refuse("include[" + std::to_string(idx) + "]",
                    "\"message.output_text.logprobs\", or what OpenAI's other models include",
                    StatusCode::kInvalidArgument,
                    OrderedJsonValue(&*fields.any("include")).element(idx).described());
    }
  }
  if (wanted) request.sampling.logprobs = static_cast<int32_t>(top.value_or(0));
}

void refuse_unsupported_response(OrderedFieldReader& fields) {
  for (const char* const name : {"previous_response_id", "conversation", "prompt"}) {
    if (fields.any(name) != nullptr) {
      fields.refuse(name,
                    "null, since nothing is stored: send the whole conversation as \"input\"");
    }
  }
  if (fields.boolean("background").value_or(false)) fields.refuse("background", "false");
}

void read_text_format(OrderedFieldReader& fields, FormatField format) {
  if (auto text = fields.object("text")) {
    read_response_format(*text, "format", "text.format", format);
  }
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
  GenerationCall call;
  read_generation(fields, facts, request, call.names);
  read_response_logprobs(fields, facts, request);
  call.names.emplace_back("max_tokens", "max_output_tokens");
  request.num_samples = 1;
  request.max_new_tokens =
      static_cast<int32_t>(fields.integer("max_output_tokens", 1, INT32_MAX).value_or(INT32_MAX));
  const bool stream = fields.boolean("stream").value_or(false);
  refuse_unsupported_response(fields);
  read_text_format(fields, {request.output_format, call.names});
  read_input(fields, conversation, call.names);
  // Responses without tools report "auto", and clients send it back.
  conversation.tools_may_be_missing = true;
  if (const Json* const tools = fields.any_list("tools")) conversation.tools = *tools;
  if (const Json* const choice = fields.any("tool_choice")) conversation.tool_choice = *choice;
  conversation.parallel_tool_calls = fields.boolean("parallel_tool_calls");
  for (const char* const name :
       {"instructions", "tools", "tool_choice", "parallel_tool_calls", "metadata", "temperature",
        "top_p", "max_output_tokens", "top_logprobs"}) {
    if (const Json* const given = fields.any(name)) echo.fields[name] = *given;
  }
  if (!fields.ok()) return api_error(fields.status());
  AssistantOutputOptions output;
  if (auto error = make_chat_prompt(engine, format, conversation, call.names, request, output)) {
    if (error->param == "messages") error->param = "input";
    return *error;
  }
  // Errors that the engine finds later, such as a prompt that does not fit, must name the client's
  // field, not the chat's.
  for (auto& name : call.names) {
    if (name.second == "messages") name.second = "input";
  }
  echo.num_logprobs = request.sampling.logprobs;
  call.writer = make_response_writer(engine, facts, stream, std::move(echo), output, call_id);
  call.prompts.push_back(std::move(request));
  return call;
}

}  // namespace forerun::server
