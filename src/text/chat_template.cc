#include "text/chat_template.h"

#include <ctime>
#include <fstream>
#include <iterator>
#include <utility>

#include "base/lfs_pointer.h"
#include "base/status_macros.h"
#include "text/jinja/evaluator.h"
#include "text/jinja/runtime.h"
#include "text/jinja/syntax.h"
#include "text/jinja/value.h"

namespace forerun {
namespace {

using text::jinja::List;
using text::jinja::Names;
using text::jinja::Value;

constexpr const char* kAccepted =
    "accepted: chat_template.jinja, chat_template.json or \"chat_template\" in "
    "tokenizer_config.json";

// Returns the whole file, or nothing if it cannot be opened.
Result<std::optional<std::string>> read_if_there(const std::filesystem::path& path) {
  std::optional<std::string> content;
  std::error_code error;
  if (!std::filesystem::is_regular_file(path, error)) return content;
  std::ifstream file(path, std::ios::binary);
  if (!file) return content;
  content.emplace(std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>());
  FORERUN_RETURN_IF_ERROR(refuse_lfs_pointer(*content, path.string()));
  return content;
}

// The special tokens that templates receive, with the names of transformers.
constexpr const char* kSpecialTokens[] = {"bos_token", "eos_token", "unk_token", "sep_token",
                                          "pad_token", "cls_token", "mask_token"};

// Returns the text of a special token, which is a string or an object with "content".
std::optional<std::string> token_content(const Value* token) {
  if (token && token->is_dict()) token = token->find("content");
  if (!token || !token->is_string()) return std::nullopt;
  return token->as_string();
}

// Reads special tokens from tokenizer_config.json, or from special_tokens_map.json if that has
// none. In files older than "added_tokens_decoder" (a config without it), the map has priority.
Names special_tokens(const Value& config, const Value& map) {
  Names out;
  const bool map_rules = !config.find("added_tokens_decoder");
  for (const char* name : kSpecialTokens) {
    const Value* in_config = config.find(name);
    const Value* mapped = map.find(name);
    const Value* chosen = mapped && (map_rules || !in_config) ? mapped : in_config;
    if (const std::optional<std::string> content = token_content(chosen)) {
      out.emplace_back(name, Value::string(*content));
    }
  }
  return out;
}

// Reads a JSON file of the checkpoint; returns none if it is absent.
Result<Value> read_json(const std::filesystem::path& path) {
  FORERUN_ASSIGN_OR_RETURN(const std::optional<std::string> bytes, read_if_there(path));
  if (!bytes) return Value::none();
  return text::jinja::parse_json(*bytes, path.string());
}

struct Sources {
  std::string regular, tool_use;
  bool found = false;
};

// Reads a template given as a string or as a list of {"name", "template"}.
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
  std::string source;
  text::jinja::Body body;
};
struct ChatTemplate::SpecialTokens {
  Names names;
};

Result<ChatTemplate> ChatTemplate::parse(std::string source) {
  FORERUN_ASSIGN_OR_RETURN(text::jinja::Body body, text::jinja::parse_template(source));
  auto parsed = std::make_shared<Parsed>();
  parsed->source = std::move(source);
  parsed->body = std::move(body);
  ChatTemplate out;
  out.default_ = std::move(parsed);
  return out;
}

Result<ChatTemplate> ChatTemplate::load(const std::filesystem::path& checkpoint_dir) {
  FORERUN_ASSIGN_OR_RETURN(ChatTemplateSources sources, load_sources(checkpoint_dir));
  return make(std::move(sources));
}

Result<ChatTemplateSources> ChatTemplate::load_sources(
    const std::filesystem::path& checkpoint_dir) {
  const std::filesystem::path config_file = checkpoint_dir / "tokenizer_config.json";
  FORERUN_ASSIGN_OR_RETURN(const Value config, read_json(config_file));
  FORERUN_ASSIGN_OR_RETURN(const Value map, read_json(checkpoint_dir / "special_tokens_map.json"));
  Sources sources;
  std::string where = (checkpoint_dir / "chat_template.jinja").string();
  FORERUN_ASSIGN_OR_RETURN(std::optional<std::string> source, read_if_there(where));
  if (source) {
    sources.regular = std::move(*source);
    sources.found = true;
  }
  if (!sources.found) {
    const std::filesystem::path file = checkpoint_dir / "chat_template.json";
    FORERUN_ASSIGN_OR_RETURN(const std::optional<std::string> bytes, read_if_there(file));
    if (bytes) {
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
  ChatTemplateSources out;
  out.regular = std::move(sources.regular);
  out.tool_use = std::move(sources.tool_use);
  out.tool_use_where = where + ": tool_use";
  out.where = std::move(where);
  const std::filesystem::path tool_use_file =
      checkpoint_dir / "additional_chat_templates" / "tool_use.jinja";
  FORERUN_ASSIGN_OR_RETURN(std::optional<std::string> tool_use_source,
                           read_if_there(tool_use_file));
  if (tool_use_source) {
    out.tool_use = std::move(*tool_use_source);
    out.tool_use_where = tool_use_file.string();
  }
  for (const auto& [name, token] : special_tokens(config, map)) {
    out.special_tokens.emplace_back(name, token.as_string());
  }
  return out;
}

Result<ChatTemplate> ChatTemplate::make(ChatTemplateSources sources) {
  // Every conversation would be an empty prompt.
  if (sources.regular.find_first_not_of(" \t\r\n") == std::string::npos) {
    return Status(StatusCode::kCorrupt, sources.where +
                                            ": found an empty template; accepted: a Jinja template "
                                            "of messages (raw prompts need none)");
  }
  Result<ChatTemplate> out = parse(std::move(sources.regular));
  if (!out.ok()) return out.status().with_context(sources.where);
  if (!sources.tool_use.empty()) {
    Result<ChatTemplate> tool_use = parse(std::move(sources.tool_use));
    if (!tool_use.ok()) return tool_use.status().with_context(sources.tool_use_where);
    out->tool_use_ = tool_use->default_;
  }
  auto tokens = std::make_shared<SpecialTokens>();
  for (auto& [name, token] : sources.special_tokens) {
    tokens->names.emplace_back(std::move(name), Value::string(std::move(token)));
  }
  out->special_tokens_ = std::move(tokens);
  return out;
}

std::string ChatTemplate::source() const {
  return tool_use_ ? default_->source + "\n" + tool_use_->source : default_->source;
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
  const bool has_tools = !tools.is_none();  // also for an empty list, as in transformers
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
  // If a name is repeated, the first value counts.
  if (!input.bos_token.empty()) {
    variables.emplace_back("bos_token", Value::string(input.bos_token));
  }
  if (!input.eos_token.empty()) {
    variables.emplace_back("eos_token", Value::string(input.eos_token));
  }
  if (special_tokens_) {
    variables.insert(variables.end(), special_tokens_->names.begin(), special_tokens_->names.end());
  }
  text::jinja::Runtime runtime;
  FORERUN_ASSIGN_OR_RETURN(runtime.now, time_of(input));
  const Parsed& chosen = has_tools && tool_use_ ? *tool_use_ : *default_;
  Result<std::string> out =
      text::jinja::Evaluator(std::move(variables), runtime).render(chosen.body);
  if (!out.ok()) return out.status().with_context("chat template");
  return out;
}

}  // namespace forerun
