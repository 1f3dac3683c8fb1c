#include "server/output/normalize_messages.h"

#include <algorithm>
#include <map>
#include <utility>
#include <vector>

#include "base/status_macros.h"
#include "server/output/json_checks.h"

namespace forerun::server {
namespace {

bool is_nine_characters(const std::string& id) {
  return id.size() == 9 && std::all_of(id.begin(), id.end(), [](char byte) {
           return (byte >= '0' && byte <= '9') || (byte >= 'a' && byte <= 'z') ||
                  (byte >= 'A' && byte <= 'Z');
         });
}

// FNV-1a.
uint64_t hash_of(const std::string& text) {
  uint64_t hash = 0xcbf29ce484222325u;
  for (const char byte : text) hash = (hash ^ static_cast<unsigned char>(byte)) * 0x100000001b3u;
  return hash;
}

class Normalizer {
 public:
  explicit Normalizer(const TemplateFacts& facts) : facts_(facts) {}

  // Appends what the message becomes.
  Status add(const Json& message, const std::string& path);
  Json take() { return std::move(messages_); }

 private:
  Result<Json> content_of(const Json& message, const std::string& path) const;
  Result<std::string> part_text(const Json& part, const std::string& path) const;
  Result<Json> call_of(const Json& call, const std::string& path);
  Result<Json> arguments_of(const Json& function, const std::string& path) const;
  Status add_assistant(const Json& message, Json out, const std::string& path);
  Status add_tool(const Json& message, Json out, const std::string& path);
  std::string id_for_template(const std::string& id) const {
    if (!facts_.wants_nine_character_ids || is_nine_characters(id)) return id;
    return make_tool_call_id(ToolFormat::kMistral, hash_of(id));
  }

  const TemplateFacts& facts_;
  std::map<std::string, std::string> name_of_call_;  // by the client's id
  Json messages_ = Json::array();
};

Result<std::string> Normalizer::part_text(const Json& part, const std::string& path) const {
  if (!part.is_object()) return refuse(path, &part, "is an object such as {\"type\": \"text\"}");
  const Json* type = member_of(part, "type");
  if (type == nullptr || *type != "text") return refuse(path + ".type", type, "is 'text'");
  return text_member(part, "text", path);
}

Result<Json> Normalizer::content_of(const Json& message, const std::string& path) const {
  const Json* content = member_of(message, "content");
  const std::string content_path = path + ".content";
  std::vector<std::string> texts;
  if (content == nullptr) {
    if (message["role"] != "assistant") {
      return refuse(content_path, content, "are a text and a list of parts");
    }
    return Json("");
  }
  if (content->is_string()) {
    texts.push_back(content->get<std::string>());
  } else if (content->is_array()) {
    for (size_t idx = 0; idx < content->size(); ++idx) {
      FORERUN_ASSIGN_OR_RETURN(std::string text,
                               part_text((*content)[idx], item_path(content_path, idx)));
      texts.push_back(std::move(text));
    }
  } else {
    return refuse(content_path, content, "are a text and a list of parts");
  }
  if (facts_.wants_content_parts) {
    Json parts = Json::array();
    for (std::string& text : texts) parts.push_back({{"type", "text"}, {"text", std::move(text)}});
    return parts;
  }
  std::string joined;
  for (size_t idx = 0; idx < texts.size(); ++idx) joined += (idx == 0 ? "" : "\n") + texts[idx];
  return Json(std::move(joined));
}

Result<Json> Normalizer::arguments_of(const Json& function, const std::string& path) const {
  const Json* arguments = member_of(function, "arguments");
  constexpr std::string_view kAccepted = "are a JSON object and the text of one";
  if (arguments == nullptr) return refuse(path, arguments, kAccepted);
  if (arguments->is_object()) {
    return facts_.wants_arguments_text ? Json(dump_json(*arguments)) : *arguments;
  }
  if (!arguments->is_string()) return refuse(path, arguments, kAccepted);
  std::string text = arguments->get<std::string>();
  // Some clients write no arguments so.
  if (text.empty()) text = "{}";
  Json object = parse_json(text);
  if (!object.is_object()) return refuse(path, arguments, kAccepted);
  return facts_.wants_arguments_text ? Json(std::move(text)) : std::move(object);
}

Result<Json> Normalizer::call_of(const Json& call, const std::string& path) {
  if (!call.is_object()) return refuse(path, &call, "is an object");
  const Json* type = member_of(call, "type");
  if (type != nullptr && *type != "function") return refuse(path + ".type", type, "is 'function'");
  FORERUN_ASSIGN_OR_RETURN(const std::string id, text_member(call, "id", path));
  const Json* function = member_of(call, "function");
  const std::string function_path = path + ".function";
  if (function == nullptr || !function->is_object()) {
    return refuse(function_path, function, "is an object");
  }
  FORERUN_ASSIGN_OR_RETURN(std::string name, text_member(*function, "name", function_path));
  FORERUN_ASSIGN_OR_RETURN(Json arguments, arguments_of(*function, function_path + ".arguments"));
  name_of_call_[id] = name;
  Json out;
  out["id"] = id_for_template(id);
  out["type"] = "function";
  out["function"] = {{"name", std::move(name)}};
  out["function"]["arguments"] = std::move(arguments);
  return out;
}

Status Normalizer::add_assistant(const Json& message, Json out, const std::string& path) {
  for (const char* name : {"reasoning_content", "reasoning"}) {
    const Json* reasoning = member_of(message, name);
    if (reasoning == nullptr || out.contains("reasoning_content")) continue;
    if (!reasoning->is_string()) return refuse(path + "." + name, reasoning, "is a text");
    out["reasoning_content"] = *reasoning;
  }
  const Json* calls = member_of(message, "tool_calls");
  const std::string calls_path = path + ".tool_calls";
  if (calls != nullptr && !calls->is_array()) return refuse(calls_path, calls, "is a list");
  if (calls == nullptr || calls->empty()) {
    messages_.push_back(std::move(out));
    return {};
  }
  Json list = Json::array();
  for (size_t idx = 0; idx < calls->size(); ++idx) {
    FORERUN_ASSIGN_OR_RETURN(Json call, call_of((*calls)[idx], item_path(calls_path, idx)));
    list.push_back(std::move(call));
  }
  if (facts_.wants_null_content) {
    // Such a template writes either the content or the calls of a message.
    const Json& content = out["content"];
    const bool has_content =
        content.is_string() ? !content.get_ref<const std::string&>().empty() : !content.empty();
    if (has_content) messages_.push_back(out);
    out["content"] = nullptr;
  }
  if (facts_.wants_single_calls) {
    for (Json& call : list) {
      out["tool_calls"] = Json::array({std::move(call)});
      messages_.push_back(out);
      out["content"] = facts_.wants_null_content ? Json() : Json("");
    }
    return {};
  }
  out["tool_calls"] = std::move(list);
  messages_.push_back(std::move(out));
  return {};
}

Status Normalizer::add_tool(const Json& message, Json out, const std::string& path) {
  FORERUN_ASSIGN_OR_RETURN(const std::string id, text_member(message, "tool_call_id", path));
  out["tool_call_id"] = id_for_template(id);
  const auto call = name_of_call_.find(id);
  if (!out.contains("name") && call != name_of_call_.end()) out["name"] = call->second;
  messages_.push_back(std::move(out));
  return {};
}

Status Normalizer::add(const Json& message, const std::string& path) {
  if (!message.is_object()) return refuse(path, &message, "is an object");
  const Json* role = member_of(message, "role");
  bool is_role = false;
  for (const char* name : {"system", "developer", "user", "assistant", "tool"}) {
    is_role = is_role || (role != nullptr && *role == name);
  }
  if (!is_role) {
    return refuse(path + ".role", role,
                  "are 'system', 'developer', 'user', 'assistant' and 'tool'");
  }
  Json out;
  out["role"] = *role == "developer" ? Json("system") : *role;
  FORERUN_ASSIGN_OR_RETURN(out["content"], content_of(message, path));
  if (const Json* name = member_of(message, "name"); name != nullptr) {
    if (!name->is_string()) return refuse(path + ".name", name, "is a text");
    out["name"] = *name;
  }
  if (*role == "assistant") return add_assistant(message, std::move(out), path);
  if (*role == "tool") return add_tool(message, std::move(out), path);
  messages_.push_back(std::move(out));
  return {};
}

}  // namespace

Result<std::string> normalize_messages(const std::string& messages_json,
                                       const TemplateFacts& facts) {
  const Json messages = parse_json(messages_json);
  if (messages.is_discarded()) {
    return Status(StatusCode::kInvalidArgument,
                  "messages: found JSON that is broken or nested deeper than " +
                      std::to_string(kMaxJsonDepth) + ", accepted is a list");
  }
  if (!messages.is_array() || messages.empty()) {
    return refuse("messages", &messages, "is a list of one message at least");
  }
  Normalizer normalizer(facts);
  for (size_t idx = 0; idx < messages.size(); ++idx) {
    FORERUN_RETURN_IF_ERROR(normalizer.add(messages[idx], item_path("messages", idx)));
  }
  return dump_json(normalizer.take());
}

}  // namespace forerun::server
