#include "server/output/tool_use.h"

#include <algorithm>
#include <set>
#include <utility>

#include "base/status_macros.h"
#include "json/json_value.h"
#include "server/json.h"
#include "server/output/json_limits.h"

namespace forerun::server {
namespace {

constexpr size_t kMaxTools = 128;  // OpenAI's limit

bool is_tool_name(const std::string& name) {
  return !name.empty() && name.size() <= 64 && std::all_of(name.begin(), name.end(), [](char byte) {
    return (byte >= '0' && byte <= '9') || (byte >= 'a' && byte <= 'z') ||
           (byte >= 'A' && byte <= 'Z') || byte == '_' || byte == '-' || byte == '.';
  });
}

// Refuses a member that is present, not null and not an object.
Status check_object(const OrderedJsonValue& value, const char* accepted = "an object") {
  return value.is_null() || value.is_object() ? Status() : value.refuse(accepted);
}

// Reads one tool and appends it to `list` in the form for templates.
Result<OfferedTool> read_tool(const OrderedJsonValue& tool, Json& list) {
  if (!tool.is_object()) return tool.refuse("an object");
  const OrderedJsonValue type = tool["type"];
  if (type.get() == nullptr || *type.get() != "function") {
    return type.refuse("\"function\"",
                       type.is_string() ? StatusCode::kUnsupported : StatusCode::kInvalidArgument);
  }
  const OrderedJsonValue nested = tool["function"];
  // Without a member `function`, its members are the tool's own.
  const bool is_flat = nested.is_null() && tool["name"].get() != nullptr;
  if (!is_flat && !nested.is_object()) return nested.refuse("an object");
  const OrderedJsonValue function = is_flat ? tool : nested;

  OfferedTool out;
  FORERUN_ASSIGN_OR_RETURN(out.name, function["name"].as_string());
  if (!is_tool_name(out.name)) {
    return function["name"].refuse("1 to 64 letters, digits, '_', '-' and '.'");
  }
  const OrderedJsonValue description = function["description"];
  if (!description.is_null() && !description.is_string()) return description.refuse("a string");
  const OrderedJsonValue parameters = function["parameters"];
  FORERUN_RETURN_IF_ERROR(check_object(parameters, "a JSON schema, an object"));
  out.parameters_path = parameters.name();
  out.parameters_json = parameters.is_null() ? "{}" : json_line(*parameters.get());
  FORERUN_ASSIGN_OR_RETURN(out.strict, function["strict"].bool_or(false));

  Json rendered;
  rendered["name"] = out.name;
  if (!description.is_null()) rendered["description"] = *description.get();
  // Templates iterate over its properties.
  rendered["parameters"] = parameters.is_null()
                               ? Json({{"type", "object"}, {"properties", Json::object()}})
                               : *parameters.get();
  Json entry = {{"type", "function"}};
  entry["function"] = std::move(rendered);
  list.push_back(std::move(entry));
  return out;
}

Status read_tools(const std::string& tools_json, ToolUse& use) {
  if (tools_json.empty()) return {};
  const Json tools = parse_json(tools_json);
  if (tools.is_null()) return {};
  if (tools.is_discarded()) {
    return {StatusCode::kInvalidArgument,
            "tools: found JSON that is broken or nested deeper than " +
                std::to_string(kMaxJsonDepth) + "; accepted: a list"};
  }
  const OrderedJsonValue offered(&tools, "", "tools");
  if (!tools.is_array() || tools.size() > kMaxTools) {
    return offered.refuse("a list of at most " + std::to_string(kMaxTools));
  }
  Json list = Json::array();
  for (size_t idx = 0; idx < tools.size(); ++idx) {
    FORERUN_ASSIGN_OR_RETURN(OfferedTool tool, read_tool(offered.element(idx), list));
    for (const OfferedTool& other : use.callable) {
      if (other.name == tool.name) {
        return {StatusCode::kInvalidArgument, offered.element(idx).name() +
                                                  ": found a second tool \"" + tool.name +
                                                  "\"; accepted: each name once"};
      }
    }
    use.callable.push_back(std::move(tool));
  }
  if (!list.empty()) use.tools_json = json_line(list);
  return {};
}

// Returns the name of the tool that `choice` names, which must be one of `tools`.
Result<std::string> chosen_tool(const OrderedJsonValue& choice,
                                const std::vector<OfferedTool>& tools) {
  if (!choice.is_object()) return choice.refuse("an object");
  FORERUN_RETURN_IF_ERROR(check_object(choice["function"]));
  const OrderedJsonValue holder = choice["function"].is_null() ? choice : choice["function"];
  FORERUN_ASSIGN_OR_RETURN(std::string name, holder["name"].as_string());
  for (const OfferedTool& tool : tools) {
    if (tool.name == name) return name;
  }
  return holder["name"].refuse("the name of one of the tools");
}

void keep(const std::set<std::string>& names, std::vector<OfferedTool>& tools) {
  std::erase_if(tools, [&](const OfferedTool& tool) { return names.count(tool.name) == 0; });
}

// Reads {"type": "allowed_tools", "mode": ..., "tools": [...]}, or the same within "allowed_tools".
Status keep_allowed(const OrderedJsonValue& choice, ToolUse& use) {
  const OrderedJsonValue nested = choice["allowed_tools"];
  const OrderedJsonValue allowed = nested.is_object() ? nested : choice;
  FORERUN_ASSIGN_OR_RETURN(const std::string mode, allowed["mode"].as_choice({"auto", "required"}));
  const OrderedJsonValue list = allowed["tools"];
  if (!list.is_array() || list.get()->empty() || list.get()->size() > kMaxTools) {
    return list.refuse("a list of 1 to " + std::to_string(kMaxTools) + " tools");
  }
  std::set<std::string> names;
  for (size_t idx = 0; idx < list.get()->size(); ++idx) {
    FORERUN_ASSIGN_OR_RETURN(std::string name, chosen_tool(list.element(idx), use.callable));
    names.insert(std::move(name));
  }
  keep(names, use.callable);
  use.choice = mode == "auto" ? ToolUse::Choice::kAuto : ToolUse::Choice::kRequired;
  return {};
}

Status read_choice(const OrderedJsonValue& choice, ToolUse& use) {
  const Json& value = *choice.get();
  if (value == "none") {
    use.choice = ToolUse::Choice::kNone;
    return {};
  }
  const Json* type = choice["type"].get();
  const bool is_object = type != nullptr && (*type == "function" || *type == "allowed_tools");
  if (!is_object && value != "auto" && value != "required") {
    return choice.refuse(
        "\"none\", \"auto\", \"required\" or {\"type\": \"function\", \"function\": {\"name\": "
        "...}}");
  }
  if (use.callable.empty() && value != "auto") {
    return choice.refuse("\"none\" or \"auto\" where there are no tools");
  }
  if (value == "required") use.choice = ToolUse::Choice::kRequired;
  if (!is_object) return {};
  if (*type == "allowed_tools") return keep_allowed(choice, use);
  use.choice = ToolUse::Choice::kNamed;
  FORERUN_ASSIGN_OR_RETURN(std::string name, chosen_tool(choice, use.callable));
  keep({std::move(name)}, use.callable);
  return {};
}

}  // namespace

Result<ToolUse> read_tool_use(const std::string& tools_json, const std::string& tool_choice_json,
                              std::optional<bool> parallel_tool_calls) {
  ToolUse use;
  use.parallel = parallel_tool_calls.value_or(true);
  FORERUN_RETURN_IF_ERROR(read_tools(tools_json, use));
  if (!use.callable.empty()) use.choice = ToolUse::Choice::kAuto;
  if (!tool_choice_json.empty()) {
    const Json choice = parse_json(tool_choice_json);
    if (!choice.is_null()) {
      FORERUN_RETURN_IF_ERROR(read_choice(OrderedJsonValue(&choice, "", "tool_choice"), use));
    }
  }
  // A grammar of forced calls would let a model call forever, so several calls must be asked for.
  if (use.choice == ToolUse::Choice::kNamed) use.parallel = false;
  if (use.choice == ToolUse::Choice::kRequired) use.parallel = parallel_tool_calls.value_or(false);
  if (use.choice == ToolUse::Choice::kNone) {
    use.callable.clear();
    use.tools_json.clear();
  }
  return use;
}

}  // namespace forerun::server
