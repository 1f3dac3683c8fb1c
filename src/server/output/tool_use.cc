#include "server/output/tool_use.h"

#include <algorithm>
#include <utility>

#include "base/status_macros.h"
#include "server/output/json_checks.h"

namespace forerun::server {
namespace {

constexpr size_t kMaxTools = 128;  // OpenAI's limit

bool is_tool_name(const std::string& name) {
  return !name.empty() && name.size() <= 64 && std::all_of(name.begin(), name.end(), [](char byte) {
    return (byte >= '0' && byte <= '9') || (byte >= 'a' && byte <= 'z') ||
           (byte >= 'A' && byte <= 'Z') || byte == '_' || byte == '-' || byte == '.';
  });
}

// Reads one tool and appends it in the shape that templates take to `list`.
Result<OfferedTool> read_tool(const Json& tool, const std::string& path, Json& list) {
  if (!tool.is_object()) return refuse(path, &tool, "is an object");
  const Json* type = member_of(tool, "type");
  if (type == nullptr || *type != "function") {
    Status status = refuse(path + ".type", type, "is 'function'");
    const bool is_other_tool = type != nullptr && type->is_string();
    return is_other_tool ? Status(StatusCode::kUnsupported, status.message()) : status;
  }
  const Json* nested = member_of(tool, "function");
  if (nested != nullptr && !nested->is_object()) {
    return refuse(path + ".function", nested, "is an object");
  }
  // Without a member `function` its members are the tool's own.
  const bool is_flat = nested == nullptr && tool.contains("name");
  if (nested == nullptr && !is_flat) return refuse(path + ".function", nullptr, "is an object");
  const Json& function = is_flat ? tool : *nested;
  const std::string function_path = is_flat ? path : path + ".function";

  OfferedTool out;
  FORERUN_ASSIGN_OR_RETURN(out.name, text_member(function, "name", function_path));
  if (!is_tool_name(out.name)) {
    return refuse(function_path + ".name", member_of(function, "name"),
                  "are 1 to 64 letters, digits, '_', '-' and '.'");
  }
  const Json* description = member_of(function, "description");
  if (description != nullptr && !description->is_string()) {
    return refuse(function_path + ".description", description, "is a text");
  }
  const Json* parameters = member_of(function, "parameters");
  if (parameters != nullptr && !parameters->is_object()) {
    return refuse(function_path + ".parameters", parameters, "is a JSON schema, an object");
  }
  out.parameters_json = parameters == nullptr ? "{}" : dump_json(*parameters);
  const Json* strict = member_of(function, "strict");
  if (strict != nullptr && !strict->is_boolean()) {
    return refuse(function_path + ".strict", strict, "are true and false");
  }
  out.strict = strict != nullptr && strict->get<bool>();

  Json rendered;
  rendered["name"] = out.name;
  if (description != nullptr) rendered["description"] = *description;
  // Templates go through its properties.
  rendered["parameters"] = parameters != nullptr
                               ? *parameters
                               : Json({{"type", "object"}, {"properties", Json::object()}});
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
                std::to_string(kMaxJsonDepth) + ", accepted is a list"};
  }
  if (!tools.is_array() || tools.size() > kMaxTools) {
    const Json found = tools.is_array() ? Json(std::to_string(tools.size()) + " tools") : tools;
    return refuse("tools", &found, "is a list of at most " + std::to_string(kMaxTools));
  }
  Json list = Json::array();
  for (size_t idx = 0; idx < tools.size(); ++idx) {
    const std::string path = item_path("tools", idx);
    FORERUN_ASSIGN_OR_RETURN(OfferedTool tool, read_tool(tools[idx], path, list));
    for (const OfferedTool& other : use.callable) {
      if (other.name == tool.name) {
        return {StatusCode::kInvalidArgument,
                path + ": found a second tool '" + tool.name + "', accepted are different names"};
      }
    }
    use.callable.push_back(std::move(tool));
  }
  if (!list.empty()) use.tools_json = dump_json(list);
  return {};
}

// Leaves only the tool that `choice` names.
Status keep_named(const Json& choice, const std::string& path, std::vector<OfferedTool>& tools) {
  const Json* function = member_of(choice, "function");
  if (function != nullptr && !function->is_object()) {
    return refuse(path + ".function", function, "is an object");
  }
  const std::string name_path = function != nullptr ? path + ".function" : path;
  const Json& holder = function != nullptr ? *function : choice;
  FORERUN_ASSIGN_OR_RETURN(const std::string name, text_member(holder, "name", name_path));
  std::erase_if(tools, [&](const OfferedTool& tool) { return tool.name != name; });
  if (!tools.empty()) return {};
  return refuse(name_path + ".name", member_of(holder, "name"), "is the name of one of the tools");
}

// {"type": "allowed_tools", "mode": ..., "tools": [...]}, or the same within "allowed_tools".
Status keep_allowed(const Json& choice, const std::string& path, ToolUse& use) {
  const Json* nested = member_of(choice, "allowed_tools");
  const Json& allowed = nested != nullptr && nested->is_object() ? *nested : choice;
  const Json* mode = member_of(allowed, "mode");
  if (mode == nullptr || (*mode != "auto" && *mode != "required")) {
    return refuse(path + ".mode", mode, "are 'auto' and 'required'");
  }
  const Json* names = member_of(allowed, "tools");
  if (names == nullptr || !names->is_array() || names->empty()) {
    return refuse(path + ".tools", names, "is a list of one tool at least");
  }
  std::vector<OfferedTool> kept;
  for (size_t idx = 0; idx < names->size(); ++idx) {
    const std::string item = item_path(path + ".tools", idx);
    if (!(*names)[idx].is_object()) return refuse(item, &(*names)[idx], "is an object");
    std::vector<OfferedTool> one = use.callable;
    FORERUN_RETURN_IF_ERROR(keep_named((*names)[idx], item, one));
    kept.push_back(std::move(one.front()));
  }
  use.choice = *mode == "auto" ? ToolUse::Choice::kAuto : ToolUse::Choice::kRequired;
  use.callable = std::move(kept);
  return {};
}

Status read_choice(const Json& choice, ToolUse& use) {
  const std::string path = "tool_choice";
  constexpr std::string_view kAccepted =
      "are 'none', 'auto', 'required' and {\"type\": \"function\", \"function\": {\"name\": ...}}";
  if (choice == "none") {
    use.choice = ToolUse::Choice::kNone;
    return {};
  }
  const Json* type = choice.is_object() ? member_of(choice, "type") : nullptr;
  const bool is_object = type != nullptr && (*type == "function" || *type == "allowed_tools");
  if (!is_object && choice != "auto" && choice != "required")
    return refuse(path, &choice, kAccepted);
  if (use.callable.empty() && choice != "auto") {
    return {StatusCode::kInvalidArgument, path + ": found " + dump_json(choice) +
                                              " without tools, accepted are 'none' and 'auto'"};
  }
  if (choice == "required") use.choice = ToolUse::Choice::kRequired;
  if (!is_object) return {};
  if (*type == "allowed_tools") return keep_allowed(choice, path, use);
  use.choice = ToolUse::Choice::kNamed;
  return keep_named(choice, path, use.callable);
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
    if (!choice.is_null()) FORERUN_RETURN_IF_ERROR(read_choice(choice, use));
  }
  if (use.choice == ToolUse::Choice::kNone) {
    use.callable.clear();
    use.tools_json.clear();
  }
  return use;
}

}  // namespace forerun::server
