#include "server/output/normalize_messages.h"

#include <algorithm>
#include <map>
#include <utility>
#include <vector>

#include "base/status_macros.h"
#include "json/json_value.h"
#include "server/json.h"
#include "server/output/json_limits.h"

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

  // Appends the converted message.
  Status add(const OrderedJsonValue& message);
  Json take() { return std::move(messages_); }

 private:
  Result<Json> content_of(const OrderedJsonValue& message) const;
  Result<Json> call_of(const OrderedJsonValue& call);
  Result<Json> arguments_of(const OrderedJsonValue& arguments) const;
  Status add_assistant(const OrderedJsonValue& message, Json out);
  Status add_tool(const OrderedJsonValue& message, Json out);
  std::string id_for_template(const std::string& id) const {
    if (!facts_.wants_nine_character_ids || is_nine_characters(id)) return id;
    return make_tool_call_id(ToolFormat::kMistral, hash_of(id));
  }

  const TemplateFacts& facts_;
  std::map<std::string, std::string> name_of_call_;  // maps the client's id of a call
  Json messages_ = Json::array();
};

Result<std::string> part_text(const OrderedJsonValue& part) {
  if (!part.is_object()) return part.refuse("an object such as {\"type\": \"text\"}");
  // Clients send a refused answer back as a part of its own kind.
  FORERUN_ASSIGN_OR_RETURN(const std::string type, part["type"].as_choice({"text", "refusal"}));
  return part[type].as_string();
}

Result<Json> Normalizer::content_of(const OrderedJsonValue& message) const {
  const OrderedJsonValue content = message["content"];
  if (content.is_null() && *message["role"].get() == "assistant") return Json("");
  std::vector<std::string> texts;
  if (content.is_string()) {
    texts.push_back(content.get()->get<std::string>());
  } else if (content.is_array()) {
    for (size_t idx = 0; idx < content.get()->size(); ++idx) {
      FORERUN_ASSIGN_OR_RETURN(std::string text, part_text(content.element(idx)));
      texts.push_back(std::move(text));
    }
  } else {
    return content.refuse("a string or a list of parts");
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

Result<Json> Normalizer::arguments_of(const OrderedJsonValue& arguments) const {
  constexpr std::string_view kAccepted = "a JSON object, or a string that holds one";
  if (arguments.is_object()) {
    return facts_.wants_arguments_text ? Json(json_line(*arguments.get())) : *arguments.get();
  }
  if (!arguments.is_string()) return arguments.refuse(kAccepted);
  std::string text = arguments.get()->get<std::string>();
  // Some clients send an empty text if there are no arguments.
  if (text.empty()) text = "{}";
  Json object = parse_json(text);
  if (!object.is_object()) return arguments.refuse(kAccepted);
  return facts_.wants_arguments_text ? Json(std::move(text)) : std::move(object);
}

Result<Json> Normalizer::call_of(const OrderedJsonValue& call) {
  if (!call.is_object()) return call.refuse("an object");
  if (!call["type"].is_null()) {
    FORERUN_RETURN_IF_ERROR(call["type"].as_choice({"function"}).status());
  }
  FORERUN_ASSIGN_OR_RETURN(const std::string id, call["id"].as_string());
  const OrderedJsonValue function = call["function"];
  if (!function.is_object()) return function.refuse("an object");
  FORERUN_ASSIGN_OR_RETURN(std::string name, function["name"].as_string());
  FORERUN_ASSIGN_OR_RETURN(Json arguments, arguments_of(function["arguments"]));
  name_of_call_[id] = name;
  Json out;
  out["id"] = id_for_template(id);
  out["type"] = "function";
  out["function"] = {{"name", std::move(name)}};
  out["function"]["arguments"] = std::move(arguments);
  return out;
}

Status Normalizer::add_assistant(const OrderedJsonValue& message, Json out) {
  for (const char* name : {"reasoning_content", "reasoning"}) {
    const OrderedJsonValue reasoning = message[name];
    if (reasoning.is_null() || out.contains("reasoning_content")) continue;
    FORERUN_ASSIGN_OR_RETURN(out["reasoning_content"], reasoning.as_string());
  }
  const OrderedJsonValue calls = message["tool_calls"];
  if (!calls.is_null() && !calls.is_array()) return calls.refuse("a list");
  if (calls.is_null() || calls.get()->empty()) {
    messages_.push_back(std::move(out));
    return {};
  }
  Json list = Json::array();
  for (size_t idx = 0; idx < calls.get()->size(); ++idx) {
    FORERUN_ASSIGN_OR_RETURN(Json call, call_of(calls.element(idx)));
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

Status Normalizer::add_tool(const OrderedJsonValue& message, Json out) {
  FORERUN_ASSIGN_OR_RETURN(const std::string id, message["tool_call_id"].as_string());
  out["tool_call_id"] = id_for_template(id);
  const auto call = name_of_call_.find(id);
  if (!out.contains("name") && call != name_of_call_.end()) out["name"] = call->second;
  messages_.push_back(std::move(out));
  return {};
}

Status Normalizer::add(const OrderedJsonValue& message) {
  if (!message.is_object()) return message.refuse("an object");
  FORERUN_ASSIGN_OR_RETURN(
      const std::string role,
      message["role"].as_choice({"system", "developer", "user", "assistant", "tool"}));
  Json out;
  out["role"] = role == "developer" ? "system" : role;
  FORERUN_ASSIGN_OR_RETURN(out["content"], content_of(message));
  if (!message["name"].is_null()) {
    FORERUN_ASSIGN_OR_RETURN(out["name"], message["name"].as_string());
  }
  if (role == "assistant") return add_assistant(message, std::move(out));
  if (role == "tool") return add_tool(message, std::move(out));
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
                      std::to_string(kMaxJsonDepth) + "; accepted: a list");
  }
  const OrderedJsonValue list(&messages, "", "messages");
  if (!messages.is_array() || messages.empty()) {
    return list.refuse("a list of at least one message");
  }
  Normalizer normalizer(facts);
  for (size_t idx = 0; idx < messages.size(); ++idx) {
    FORERUN_RETURN_IF_ERROR(normalizer.add(list.element(idx)));
  }
  return json_line(normalizer.take());
}

}  // namespace forerun::server
