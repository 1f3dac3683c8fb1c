#include "server/api/chat_prompt_fields.h"

#include <random>
#include <string_view>

#include "server/api/format_fields.h"
#include "server/json.h"
#include "server/output/call_frame.h"
#include "server/output/normalize_messages.h"

namespace forerun::server {
namespace {

// The schema of a function without given parameters, which has none.
constexpr const char* kNoParameters = R"({"type": "object", "additionalProperties": false})";

std::string text_or_nothing(const Json& json) { return json.is_null() ? "" : json_line(json); }

ApiError field_error(const Status& failure, const std::string& field, const ParamNames& names) {
  ApiError error = api_error(failure, names);
  if (error.param.empty()) error.param = field;
  return error;
}

ApiError refused(const std::string& field, const std::string& message) {
  ApiError error = api_error(400, field + ": " + message);
  error.param = field;
  return error;
}

std::string random_call_id(ToolFormat format) {
  static thread_local std::mt19937_64 random{std::random_device{}()};
  return make_tool_call_id(format, random());
}

// Shows special tokens if tags need them, but not those that end an answer.
void show_special_tokens(const Engine& engine, Request& request, AssistantOutputOptions& output) {
  request.skip_special_tokens = false;
  for (const int32_t token : engine.info().eos_token_ids) {
    const Result<std::string> name = engine.token_bytes(token);
    if (name.ok()) output.end_token_names.push_back(*name);
  }
}

// Forces the output to be calls of the callable tools, each with arguments that match its schema.
std::optional<ApiError> force_calls(ToolFormat tools, const ToolUse& use, ParamNames& names,
                                    OutputFormat& format) {
  constexpr const char* kChoice = "tool_choice";
  constexpr int kMaxCalls = 16;  // limit for a model that never stops calling
  const CallFrame frame = call_frame(tools);
  if (frame.before_name.empty()) {
    return refused(kChoice,
                   "the checkpoint's chat template has no form for calls, so that none can be "
                   "forced (serve --tool-format names one)");
  }
  if (format.kind != OutputFormat::Kind::kAny) {
    return refused(kChoice,
                   "found together with a format for the answer; accepted: only one of the two");
  }
  std::string text = "root ::= " + grammar_literal(frame.before_all) + " call";
  if (frame.more_than_one && use.parallel) {
    text +=
        " (" + grammar_literal(frame.between) + " call){0," + std::to_string(kMaxCalls - 1) + "}";
  }
  text += " " + grammar_literal(frame.after_all) + "\ncall ::=";
  std::string rules;
  for (size_t idx = 0; idx < use.callable.size(); ++idx) {
    const OfferedTool& tool = use.callable[idx];
    const std::string number = std::to_string(idx);
    text += (idx == 0 ? " tool-" : " | tool-") + number;
    rules += "\ntool-" + number + " ::= " + grammar_literal(frame.before_name) + " " +
             grammar_literal(tool.name) + " " + grammar_literal(frame.before_arguments) +
             " arguments-" + number + " " + grammar_literal(frame.after_arguments);
    names.emplace_back("output_format: rule \"arguments-" + number + "\"", tool.parameters_path);
    const bool has_parameters = tool.parameters_json != "{}";
    format.schemas.emplace_back("arguments-" + number,
                                has_parameters ? tool.parameters_json : kNoParameters);
  }
  format.kind = OutputFormat::Kind::kGrammar;
  format.text = text + rules;
  return std::nullopt;
}

std::string_view stripped(std::string_view text) {
  constexpr std::string_view kBlank = " \t\r\n\f\v";
  const size_t begin = text.find_first_not_of(kBlank);
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(kBlank) + 1 - begin);
}

// Returns the text of a message, if its content is a text or a list of text parts.
std::string text_of_message(const Json& message) {
  const auto content = message.find("content");
  if (content == message.end()) return "";
  if (content->is_string()) return content->get<std::string>();
  std::string text;
  if (content->is_array()) {
    for (const Json& part : *content) text = part.value("text", text);
  }
  return text;
}

// Removes the text that a template writes after the last message (the end of its turn), like
// transformers' `continue_final_message`.
std::optional<ApiError> cut_behind_final_message(const std::string& messages_json,
                                                 std::string& rendered) {
  constexpr const char* kField = "continue_final_message";
  const Json messages = Json::parse(messages_json);
  const std::string text =
      messages.back().value("role", "") == "assistant" ? text_of_message(messages.back()) : "";
  const std::string_view wanted = stripped(text);
  if (wanted.empty()) {
    return refused(kField,
                   "found a last message that is not the assistant's, or that has no text; "
                   "accepted: a last message of the assistant, with text");
  }
  const size_t begin = rendered.rfind(wanted);
  if (begin == std::string::npos) {
    return refused(kField,
                   "the checkpoint's template does not write the last message's text as it is");
  }
  // Trailing spaces of the text stay as the template leaves them.
  const std::string_view tail =
      std::string_view(text).substr(text.find(wanted.front()) + wanted.size());
  size_t end = begin + wanted.size();
  if (std::string_view(rendered).substr(end).starts_with(tail)) end += tail.size();
  rendered.resize(end);
  return std::nullopt;
}

// Refuses tools that the template would not show to the model, and a tool_choice without tools.
std::optional<ApiError> check_tools(const ChatFormat& format, const Conversation& conversation,
                                    const ToolUse& use) {
  const Json& choice = conversation.tool_choice;
  const bool chooses = !choice.is_null() && choice != "none";
  if (chooses && conversation.tools.is_null() && !conversation.tools_may_be_missing) {
    return refused(
        "tool_choice",
        "found without \"tools\"; accepted: \"none\", or a choice together with \"tools\"");
  }
  if (use.choice == ToolUse::Choice::kNone || format.facts.renders_tools || format.names_tools) {
    return std::nullopt;
  }
  return refused("tools",
                 "the checkpoint's chat template does not write them, so the model would not see "
                 "them; accepted: no tools, or \"tool_choice\": \"none\" (if the model can call "
                 "tools nevertheless, serve --tool-format names the form of its calls)");
}

// Returns whether a template variable tells the model not to reason.
bool reasoning_is_off(const Json& variables) {
  if (!variables.is_object()) return false;
  for (const char* const name : {"enable_thinking", "thinking"}) {
    const auto found = variables.find(name);
    if (found != variables.end() && *found == false) return true;
  }
  return false;
}

// Makes the request's format apply after the reasoning, if the model may reason.
void hold_behind_reasoning(const ChatFormat& format, const Conversation& conversation,
                           bool begins_in_reasoning, Request& request) {
  const ReasoningTags tags = reasoning_tags(format.reasoning);
  OutputReasoning& reasoning = request.output_format.reasoning;
  if (request.output_format.kind == OutputFormat::Kind::kAny || tags.close.empty()) return;
  if (begins_in_reasoning) {
    reasoning.close = tags.close;
    return;
  }
  const bool may_open = conversation.add_generation_prompt &&
                        !reasoning_is_off(conversation.template_variables) &&
                        !stripped(request.prompt).ends_with(tags.close);
  if (may_open) reasoning = {.close = std::string(tags.close), .open = std::string(tags.open)};
}

}  // namespace

std::optional<ApiError> make_chat_prompt(const Engine& engine, const ChatFormat& format,
                                         const Conversation& conversation, ParamNames& names,
                                         Request& request, AssistantOutputOptions& output) {
  names.emplace_back("prompt", "messages");
  const Result<ToolUse> use =
      read_tool_use(text_or_nothing(conversation.tools), text_or_nothing(conversation.tool_choice),
                    conversation.parallel_tool_calls);
  if (!use.ok()) return field_error(use.status(), "tools", names);
  if (const auto error = check_tools(format, conversation, *use)) return *error;
  const bool is_forced =
      use->choice == ToolUse::Choice::kRequired || use->choice == ToolUse::Choice::kNamed;
  if (is_forced) {
    if (const auto error = force_calls(format.tools, *use, names, request.output_format)) {
      return *error;
    }
  }
  const Result<std::string> messages =
      normalize_messages(json_line(conversation.messages), format.facts);
  if (!messages.ok()) return field_error(messages.status(), "messages", names);

  ChatPrompt prompt;
  prompt.messages_json = *messages;
  prompt.tools_json = use->tools_json;
  prompt.variables_json = text_or_nothing(conversation.template_variables);
  prompt.add_generation_prompt = conversation.add_generation_prompt;
  const bool is_marked = format.control->mark(prompt);
  Result<std::string> rendered = engine.apply_chat_template(prompt);
  if (!rendered.ok()) return field_error(rendered.status(), "messages", names);
  if (conversation.continue_final_message) {
    if (const auto error = cut_behind_final_message(prompt.messages_json, *rendered)) return *error;
  }
  request.prompt = std::move(*rendered);
  request.add_special_tokens = false;
  if (is_marked) {
    Result<std::vector<int32_t>> tokens = format.control->tokenize(engine, request.prompt);
    if (!tokens.ok()) return field_error(tokens.status(), "messages", names);
    request.prompt_tokens = std::move(*tokens);
  }

  output.reasoning_format = format.reasoning;
  output.begins_in_reasoning = prompt_opens_reasoning(format.reasoning, request.prompt);
  hold_behind_reasoning(format, conversation, output.begins_in_reasoning, request);
  bool shows_special = format.reasoning_is_special;
  if (use->choice != ToolUse::Choice::kNone) {
    output.tool_format = format.tools;
    output.tools = use->callable;
    output.parallel_tool_calls = use->parallel;
    output.make_call_id = [tools = format.tools](int32_t) { return random_call_id(tools); };
    shows_special = shows_special || tool_format_needs_special_tokens(format.tools);
  }
  if (shows_special) show_special_tokens(engine, request, output);
  return std::nullopt;
}

}  // namespace forerun::server
