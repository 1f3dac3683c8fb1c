#include "server/api/chat_completions.h"

#include <utility>

#include "json/field_reader.h"
#include "server/api/chat_prompt_fields.h"
#include "server/api/chat_writer.h"
#include "server/api/format_fields.h"
#include "server/api/generation_fields.h"
#include "server/json.h"

namespace forerun::server {
namespace {

void read_logprobs(OrderedFieldReader& fields, const ServerFacts& facts, Request& request) {
  const bool wanted = fields.boolean("logprobs").value_or(false);
  const auto top = fields.integer("top_logprobs", 0, facts.options.max_logprobs);
  if (wanted) request.sampling.logprobs = static_cast<int32_t>(top.value_or(0));
  if (!wanted && top && *top > 0) fields.refuse("top_logprobs", "0 unless \"logprobs\" is true");
}

void read_length(OrderedFieldReader& fields, Request& request, ParamNames& names) {
  const auto older = fields.integer("max_tokens", 1, INT32_MAX);
  const auto newer = fields.integer("max_completion_tokens", 1, INT32_MAX);
  if (newer) names.emplace_back("max_tokens", "max_completion_tokens");
  // If neither is given, the answer may fill the context.
  request.max_new_tokens = static_cast<int32_t>(newer.value_or(older.value_or(INT32_MAX)));
}

void read_conversation(OrderedFieldReader& fields, Conversation& conversation) {
  const Json* const messages = fields.any_list("messages");
  if (messages == nullptr) return fields.refuse("messages", "a list of messages");
  conversation.messages = *messages;
  if (const Json* const tools = fields.any_list("tools")) conversation.tools = *tools;
  if (const Json* const choice = fields.any("tool_choice")) conversation.tool_choice = *choice;
  conversation.parallel_tool_calls = fields.boolean("parallel_tool_calls");
  if (const Json* const variables = fields.any_object("chat_template_kwargs")) {
    conversation.template_variables = *variables;
  }
  for (const char* const name : {"documents", "reasoning_effort"}) {  // variables of some templates
    const Json* const value = fields.any(name);
    if (value == nullptr) continue;
    Json& variables = conversation.template_variables;
    if (variables.is_null()) variables = Json::object();
    if (!variables.contains(name)) variables[name] = *value;
  }
  const auto prompted = fields.boolean("add_generation_prompt");
  conversation.continue_final_message = fields.boolean("continue_final_message").value_or(false);
  conversation.add_generation_prompt = prompted.value_or(!conversation.continue_final_message);
  if (conversation.continue_final_message && conversation.add_generation_prompt) {
    fields.refuse("continue_final_message", "false beside \"add_generation_prompt\"");
  }
}

void refuse_unsupported_chat(OrderedFieldReader& fields) {
  refuse_given(fields, {{"functions", "null; \"tools\" has taken its place"},
                        {"function_call", "null; \"tool_choice\" has taken its place"},
                        {"audio", "null; answers are text"},
                        {"web_search_options", "null; nothing is looked up"},
                        {"chat_template", "null; the checkpoint's own template is used"},
                        {"echo", "false; /v1/completions has it"}});
  const Json* const modalities = fields.any_list("modalities");
  if (modalities != nullptr && *modalities != Json::array({"text"})) {
    fields.refuse("modalities", "[\"text\"]");
  }
}

}  // namespace

std::variant<GenerationCall, ApiError> read_chat_completion(const Engine& engine,
                                                            const ServerFacts& facts,
                                                            const ChatFormat& format,
                                                            const std::string& body,
                                                            const std::string& call_id) {
  Json object;
  if (const auto error = parse_call(body, facts, &object)) return *error;
  OrderedFieldReader fields{OrderedJsonValue(&object)};
  Request request;
  StreamFields stream;
  Conversation conversation;
  GenerationCall call;
  read_generation(fields, facts, request, call.names);
  read_stream(fields, stream);
  read_logprobs(fields, facts, request);
  const auto prompt_logprobs = read_prompt_logprobs(fields, facts, stream.stream);
  request.sampling.prompt_logprobs = prompt_logprobs.value_or(-1);
  read_length(fields, request, call.names);
  read_response_format(fields, "response_format", "response_format",
                       {request.output_format, call.names});
  read_conversation(fields, conversation);
  refuse_unsupported_chat(fields);
  if (!fields.ok()) return api_error(fields.status());
  request.record_rounds = stream.speculation;
  AssistantOutputOptions output;
  if (const auto error =
          make_chat_prompt(engine, format, conversation, call.names, request, output)) {
    return *error;
  }
  if (const auto error = limit_scores(engine, facts, {&request, 1}, call.names)) return *error;
  ChatAnswerOptions answer;
  if (stream.wants_prompt_tokens()) {
    if (const auto error = tokenize_prompts(engine, {&request, 1}, call.names)) return *error;
    answer.prompt_tokens = request.prompt_tokens;
  }
  answer.stream = stream;
  answer.output = std::move(output);
  answer.num_choices = static_cast<size_t>(request.num_samples);
  answer.id = "chatcmpl-" + call_id;
  answer.prompt_logprobs = prompt_logprobs;
  call.writer = make_chat_writer(engine, facts, std::move(answer));
  call.prompts.push_back(std::move(request));
  return call;
}

}  // namespace forerun::server
