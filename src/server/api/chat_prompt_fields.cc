#include "server/api/chat_prompt_fields.h"

#include <random>
#include <string_view>

#include "server/api/format_fields.h"
#include "server/json.h"
#include "server/output/call_frame.h"
#include "server/output/normalize_messages.h"

namespace forerun::server {
namespace {

// A function whose parameters are not given has none.
constexpr const char* kNoParameters = R"({"type": "object", "additionalProperties": false})";

std::string text_or_nothing(const Json& json) { return json.is_null() ? "" : json_line(json); }

ApiError field_error(const Status& failure, const std::string& field) {
  ApiError error = api_error(failure);
  if (error.param.empty()) error.param = field;
  return error;
}

std::string random_call_id(ToolFormat format) {
  static thread_local std::mt19937_64 random{std::random_device{}()};
  return make_tool_call_id(format, random());
}

// Where special tokens are shown for the sake of tags, those that end an answer must not be.
void show_special_tokens(const Engine& engine, Request& request, AssistantOutputOptions& output) {
  request.skip_special_tokens = false;
  for (const int32_t token : engine.info().eos_token_ids) {
    const Result<std::string> name = engine.token_bytes(token);
    if (name.ok()) output.end_token_names.push_back(*name);
  }
}

// The output becomes calls of the tools that may be called, each with arguments by its schema.
std::optional<ApiError> force_calls(ToolFormat tools, const ToolUse& use, OutputFormat& format) {
  const auto refused = [](const std::string& message) {
    ApiError error = api_error(400, message);
    error.param = "tool_choice";
    return error;
  };
  const CallFrame frame = call_frame(tools);
  if (frame.before_name.empty()) {
    return refused(
        "tool_choice: the checkpoint's chat template has no form for calls, so that "
        "none can be forced (serve --tool-format names one)");
  }
  if (format.kind != OutputFormat::Kind::kAny) {
    return refused("tool_choice: found beside a format of the answer; accepted: one of them");
  }
  const bool several = frame.more_than_one && use.parallel;
  std::string text = "root ::= " + grammar_literal(frame.before_all) + " call";
  if (several) text += " (" + grammar_literal(frame.between) + " call)*";
  text += " " + grammar_literal(frame.after_all) + "\ncall ::=";
  std::string rules;
  for (size_t idx = 0; idx < use.callable.size(); ++idx) {
    const OfferedTool& tool = use.callable[idx];
    const std::string number = std::to_string(idx);
    text += (idx == 0 ? " tool-" : " | tool-") + number;
    rules += "\ntool-" + number + " ::= " + grammar_literal(frame.before_name) + " " +
             grammar_literal(tool.name) + " " + grammar_literal(frame.before_arguments) +
             " arguments-" + number + " " + grammar_literal(frame.after_arguments);
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

// The text of a message whose content is a text or a list of parts of text.
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

// Cuts what a template writes behind the last message's text (the end of its turn), as
// transformers' `continue_final_message` does.
std::optional<ApiError> cut_behind_final_message(const std::string& messages_json,
                                                 std::string& rendered) {
  const auto refused = [](const char* why) {
    ApiError error = api_error(400, std::string("continue_final_message: ") + why);
    error.param = "continue_final_message";
    return error;
  };
  const Json messages = Json::parse(messages_json);
  const std::string text =
      messages.back().value("role", "") == "assistant" ? text_of_message(messages.back()) : "";
  const std::string_view wanted = stripped(text);
  if (wanted.empty()) return refused("accepted: a last message of the assistant's with text");
  const size_t begin = rendered.rfind(wanted);
  if (begin == std::string::npos) {
    return refused("the checkpoint's template does not write the last message's text as it is");
  }
  // Blanks at the text's end stay where the template leaves them.
  const std::string_view tail =
      std::string_view(text).substr(text.find(wanted.front()) + wanted.size());
  size_t end = begin + wanted.size();
  if (std::string_view(rendered).substr(end).starts_with(tail)) end += tail.size();
  rendered.resize(end);
  return std::nullopt;
}

}  // namespace

std::optional<ApiError> make_chat_prompt(const Engine& engine, const ChatFormat& format,
                                         const Conversation& conversation, Request& request,
                                         AssistantOutputOptions& output) {
  const Result<ToolUse> use =
      read_tool_use(text_or_nothing(conversation.tools), text_or_nothing(conversation.tool_choice),
                    conversation.parallel_tool_calls);
  if (!use.ok()) return field_error(use.status(), "tools");
  const bool is_forced =
      use->choice == ToolUse::Choice::kRequired || use->choice == ToolUse::Choice::kNamed;
  if (is_forced) {
    if (const auto error = force_calls(format.tools, *use, request.output_format)) return *error;
  }
  const Result<std::string> messages =
      normalize_messages(json_line(conversation.messages), format.facts);
  if (!messages.ok()) return field_error(messages.status(), "messages");

  ChatPrompt prompt;
  prompt.messages_json = *messages;
  prompt.tools_json = use->tools_json;
  prompt.variables_json = text_or_nothing(conversation.template_variables);
  prompt.add_generation_prompt = conversation.add_generation_prompt;
  const bool is_marked = format.control->mark(prompt);
  Result<std::string> rendered = engine.apply_chat_template(prompt);
  if (!rendered.ok()) return field_error(rendered.status(), "messages");
  if (conversation.continue_final_message) {
    if (const auto error = cut_behind_final_message(prompt.messages_json, *rendered)) return *error;
  }
  request.prompt = std::move(*rendered);
  request.add_special_tokens = false;
  if (is_marked) {
    Result<std::vector<int32_t>> tokens = format.control->tokenize(engine, request.prompt);
    if (!tokens.ok()) return field_error(tokens.status(), "messages");
    request.prompt_tokens = std::move(*tokens);
  }

  output.reasoning_format = format.reasoning;
  output.begins_in_reasoning =
      !is_forced && prompt_opens_reasoning(format.reasoning, request.prompt);
  bool shows_special = reasoning_format_needs_special_tokens(format.reasoning);
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
