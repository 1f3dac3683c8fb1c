#include "text/chat_template.h"

#include <ctime>
#include <fstream>
#include <iterator>
#include <utility>

#include "text/jinja/evaluator.h"
#include "text/jinja/json_value.h"
#include "text/jinja/parser.h"

namespace forerun {
namespace {

using text::jinja::List;
using text::jinja::Names;
using text::jinja::Value;

constexpr const char* kAccepted =
    "accepted: chat_template.jinja, chat_template.json or \"chat_template\" in "
    "tokenizer_config.json";

// The whole file, or nothing if it cannot be opened.
std::optional<std::string> read_file(const std::filesystem::path& path) {
  std::error_code error;
  if (!std::filesystem::is_regular_file(path, error)) return std::nullopt;
  std::ifstream file(path, std::ios::binary);
  if (!file) return std::nullopt;
  return std::string(std::istreambuf_iterator<char>(file), {});
}

// "bos_token" may be a string or an object with its "content".
std::string token_content(const Value& config, const char* name) {
  const Value* token = config.find(name);
  if (token && token->is_dict()) token = token->find("content");
  return token && token->is_string() ? token->as_string() : "";
}

struct Sources {
  std::string regular, tool_use;
  bool found = false;
};

// A template as a string or a list of {"name", "template"}.
Result<Sources> read_sources(const Value& value, const std::string& where) {
  Sources out;
  if (value.is_string()) {
    out.regular = value.as_string();
    out.found = true;
    return out;
  }
  const Status refused(StatusCode::kCorrupt,
                       where + ": found " + value.kind_name() +
                           "; accepted: a string, or a list of {\"name\", \"template\"} with one "
                           "named \"default\"");
  if (!value.is_list()) return refused;
  for (const Value& entry : value.as_list()) {
    const Value* name = entry.find("name");
    const Value* source = entry.find("template");
    if (!name || !source || !name->is_string() || !source->is_string()) return refused;
    if (name->as_string() == "tool_use") out.tool_use = source->as_string();
    if (name->as_string() != "default") continue;
    out.regular = source->as_string();
    out.found = true;
  }
  if (!out.found) return refused;
  return out;
}

Result<std::tm> time_of(const ChatInput& input) {
  std::tm now{};
  const std::time_t seconds =
      input.now_unix_s ? static_cast<std::time_t>(*input.now_unix_s) : std::time(nullptr);
  const std::tm* made = input.now_unix_s ? gmtime_r(&seconds, &now) : localtime_r(&seconds, &now);
  if (!made) {
    return Status(StatusCode::kInvalidArgument,
                  "now_unix_s: found " + std::to_string(seconds) + "; accepted: a date");
  }
  return now;
}

Result<Value> messages_of(const ChatInput& input) {
  if (!input.messages_json.empty()) {
    FORERUN_ASSIGN_OR_RETURN(Value messages,
                             text::jinja::parse_json(input.messages_json, "messages"));
    if (messages.is_list()) return messages;
    return Status(StatusCode::kInvalidArgument,
                  std::string("messages: found ") + messages.kind_name() + "; accepted: a list");
  }
  List messages;
  for (const ChatMessage& message : input.messages) {
    FORERUN_ASSIGN_OR_RETURN(Value made,
                             Value::dict(Names{{"role", Value::string(message.role)},
                                               {"content", Value::string(message.content)}}));
    messages.push_back(std::move(made));
  }
  return Value::list(std::move(messages));
}

}  // namespace

struct ChatTemplate::Parsed {
  text::jinja::Body body;
};

Result<ChatTemplate> ChatTemplate::parse(std::string source) {
  FORERUN_ASSIGN_OR_RETURN(text::jinja::Body body, text::jinja::parse_template(source));
  auto parsed = std::make_shared<Parsed>();
  parsed->body = std::move(body);
  ChatTemplate out;
  out.default_ = std::move(parsed);
  return out;
}

Result<ChatTemplate> ChatTemplate::load(const std::filesystem::path& checkpoint_dir) {
  const std::filesystem::path config_file = checkpoint_dir / "tokenizer_config.json";
  Value config = Value::none();
  if (const std::optional<std::string> bytes = read_file(config_file)) {
    FORERUN_ASSIGN_OR_RETURN(config, text::jinja::parse_json(*bytes, config_file.string()));
  }
  Sources sources;
  std::string where = (checkpoint_dir / "chat_template.jinja").string();
  if (std::optional<std::string> source = read_file(where)) {
    sources.regular = std::move(*source);
    sources.found = true;
  }
  if (!sources.found) {
    const std::filesystem::path file = checkpoint_dir / "chat_template.json";
    if (const std::optional<std::string> bytes = read_file(file)) {
      where = file.string() + ": chat_template";
      FORERUN_ASSIGN_OR_RETURN(const Value json, text::jinja::parse_json(*bytes, file.string()));
      const Value* value = json.find("chat_template");
      FORERUN_ASSIGN_OR_RETURN(sources, read_sources(value ? *value : json, where));
    }
  }
  if (!sources.found) {
    where = config_file.string() + ": chat_template";
    const Value* value = config.find("chat_template");
    if (!value || value->is_none()) {
      return Status(StatusCode::kNotFound,
                    checkpoint_dir.string() + ": found no chat template; " + kAccepted);
    }
    FORERUN_ASSIGN_OR_RETURN(sources, read_sources(*value, where));
  }
  Result<ChatTemplate> out = parse(std::move(sources.regular));
  if (!out.ok()) return out.status().with_context(where);
  if (!sources.tool_use.empty()) {
    Result<ChatTemplate> tool_use = parse(std::move(sources.tool_use));
    if (!tool_use.ok()) return tool_use.status().with_context(where + ": tool_use");
    out->tool_use_ = tool_use->default_;
  }
  out->bos_token_ = token_content(config, "bos_token");
  out->eos_token_ = token_content(config, "eos_token");
  return out;
}

Result<std::string> ChatTemplate::render(const ChatInput& input) const {
  Names variables;
  if (!input.variables_json.empty()) {
    FORERUN_ASSIGN_OR_RETURN(const Value extra,
                             text::jinja::parse_json(input.variables_json, "variables"));
    if (!extra.is_dict()) {
      return Status(StatusCode::kInvalidArgument,
                    std::string("variables: found ") + extra.kind_name() + "; accepted: an object");
    }
    for (const auto& [name, value] : extra.as_dict()) {
      variables.emplace_back(name.as_string(), value);
    }
  }
  FORERUN_ASSIGN_OR_RETURN(Value messages, messages_of(input));
  variables.emplace_back("messages", std::move(messages));
  Value tools = Value::none();
  if (!input.tools_json.empty()) {
    FORERUN_ASSIGN_OR_RETURN(tools, text::jinja::parse_json(input.tools_json, "tools"));
    if (!tools.is_list() && !tools.is_none()) {
      return Status(StatusCode::kInvalidArgument,
                    std::string("tools: found ") + tools.kind_name() + "; accepted: a list");
    }
  }
  const bool has_tools = tools.truth();
  variables.emplace_back("tools", std::move(tools));
  if (!input.documents_json.empty()) {
    FORERUN_ASSIGN_OR_RETURN(Value documents,
                             text::jinja::parse_json(input.documents_json, "documents"));
    if (!documents.is_list()) {
      return Status(StatusCode::kInvalidArgument, std::string("documents: found ") +
                                                      documents.kind_name() + "; accepted: a list");
    }
    variables.emplace_back("documents", std::move(documents));
  }
  variables.emplace_back("add_generation_prompt", Value::boolean(input.add_generation_prompt));
  const auto add_token = [&](const char* name, const std::string& given, const std::string& own) {
    const std::string& token = given.empty() ? own : given;
    if (!token.empty()) variables.emplace_back(name, Value::string(token));
  };
  add_token("bos_token", input.bos_token, bos_token_);
  add_token("eos_token", input.eos_token, eos_token_);
  text::jinja::Runtime runtime;
  FORERUN_ASSIGN_OR_RETURN(runtime.now, time_of(input));
  const Parsed& chosen = has_tools && tool_use_ ? *tool_use_ : *default_;
  Result<std::string> out =
      text::jinja::Evaluator(std::move(variables), runtime).render(chosen.body);
  if (!out.ok()) return out.status().with_context("chat template");
  return out;
}

}  // namespace forerun
