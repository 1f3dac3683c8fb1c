#include "server/api/chat_completions.h"

#include <utility>

#include "server/api/chat_prompt_fields.h"
#include "server/api/chat_writer.h"
#include "server/api/fields.h"
#include "server/api/format_fields.h"
#include "server/api/generation_fields.h"

namespace forerun::server {
namespace {

void read_logprobs(Fields& fields, const ServerFacts& facts, Request& request) {
  const bool wanted = fields.boolean("logprobs").value_or(false);
  const auto top = fields.integer("top_logprobs", 0, facts.options.max_logprobs);
  if (wanted) request.sampling.logprobs = static_cast<int32_t>(top.value_or(0));
  if (!wanted && top && *top > 0) fields.refuse("top_logprobs", "0 unless \"logprobs\" is true");
}

void read_length(Fields& fields, Request& request) {
  const auto older = fields.integer("max_tokens", 1, INT32_MAX);
  const auto newer = fields.integer("max_completion_tokens", 1, INT32_MAX);
  // Without either the answer may fill the context.
  request.max_new_tokens = static_cast<int32_t>(newer.value_or(older.value_or(INT32_MAX)));
}

void read_conversation(Fields& fields, Conversation& conversation) {
  const Json* const messages = fields.array("messages");
  if (messages == nullptr) return fields.refuse("messages", "a list of messages");
  conversation.messages = *messages;
  if (const Json* const tools = fields.array("tools")) conversation.tools = *tools;
  if (const Json* const choice = fields.any("tool_choice")) conversation.tool_choice = *choice;
  conversation.parallel_tool_calls = fields.boolean("parallel_tool_calls");
  if (const Json* const variables = fields.object("chat_template_kwargs")) {
    conversation.template_variables = *variables;
  }
  conversation.add_generation_prompt = fields.boolean("add_generation_prompt").value_or(true);
}

}  // namespace

std::variant<GenerationCall, ApiError> read_chat_completion(const Engine& engine,
                                                            const ServerFacts& facts,
                                                            const ChatFormat& format,
                                                            const std::string& body,
                                                            const std::string& call_id) {
  Json object;
  if (const auto error = parse_call(body, facts, &object)) return *error;
  Fields fields(object);
  Request request;
  StreamFields stream;
  Conversation conversation;
  read_generation(fields, facts, request);
  read_stream(fields, stream);
  read_logprobs(fields, facts, request);
  const auto prompt_logprobs = read_prompt_logprobs(fields, facts, stream.stream);
  request.sampling.prompt_logprobs = prompt_logprobs.value_or(-1);
  read_length(fields, request);
  read_response_format(fields, "response_format", request.output_format);
  read_conversation(fields, conversation);
  if (fields.error()) return *fields.error();
  request.record_rounds = stream.speculation;
  AssistantOutputOptions output;
  if (const auto error = make_chat_prompt(engine, format, conversation, request, output)) {
    return *error;
  }
  if (const auto error = limit_scores(engine, facts, {&request, 1})) return *error;
  GenerationCall call;
  call.writer = make_chat_writer(engine, facts, stream, std::move(output),
                                 static_cast<size_t>(request.num_samples), "chatcmpl-" + call_id,
                                 prompt_logprobs);
  call.prompts.push_back(std::move(request));
  return call;
}

}  // namespace forerun::server
