#include "server/output/template_facts.h"

#include "server/json.h"

namespace forerun::server {
namespace {

constexpr const char* kText = "probe text";
constexpr const char* kValue = "probe value";
// The two spaces show whether a template copies the text: no other output has them.
constexpr const char* kArgumentsText = R"({"probe_key":  "probe value"})";

bool contains(const std::string& text, std::string_view part) {
  return text.find(part) != std::string::npos;
}

// Returns the rendered conversation; empty if the template refuses it.
std::string rendered(const RenderMessages& render, const Json& messages,
                     const std::string& tools = "") {
  const Result<std::string> text = render(json_line(messages), tools);
  return text.ok() ? *text : "";
}

Json call_messages(const Json& content, const Json& arguments, const char* id,
                   size_t num_calls = 1) {
  Json function = {{"name", "probe_tool"}};
  function["arguments"] = arguments;
  Json call = {{"id", id}, {"type", "function"}};
  call["function"] = std::move(function);
  Json assistant = {{"role", "assistant"}};
  assistant["content"] = content;
  assistant["tool_calls"] = Json::array();
  for (size_t idx = 0; idx < num_calls; ++idx) assistant["tool_calls"].push_back(call);
  Json user = {{"role", "user"}, {"content", kText}};
  return Json::array({std::move(user), std::move(assistant)});
}

void probe_content(const RenderMessages& render, TemplateFacts& facts) {
  const Json as_text = Json::array({{{"role", "user"}, {"content", kText}}});
  if (contains(rendered(render, as_text), kText)) return;
  Json user = {{"role", "user"}};
  user["content"] = Json::array({{{"type", "text"}, {"text", kText}}});
  facts.wants_content_parts = contains(rendered(render, Json::array({user})), kText);
}

// Returns whether the template renders calls with this content, and with these tools; fills in the
// facts if so.
bool probe_calls(const RenderMessages& render, const Json& content, const std::string& tools,
                 TemplateFacts& facts) {
  constexpr const char* kNineCharacters = "Pr0beCa11";
  const Json object = {{"probe_key", kValue}};
  const auto text_with = [&](const Json& arguments, const char* id) {
    return rendered(render, call_messages(content, arguments, id), tools);
  };
  const std::string of_text = text_with(kArgumentsText, kNineCharacters);
  const std::string of_object = text_with(object, kNineCharacters);
  const bool copies_text = contains(of_text, kArgumentsText);
  // If a text was converted to JSON again, its quotes are escaped; an object printed by Python has
  // no JSON quotes.
  const bool takes_object = contains(of_object, kValue) && !contains(of_object, "{'probe_key'");
  if (!copies_text && !takes_object) return false;
  facts.renders_tool_calls = true;
  facts.wants_null_content = content.is_null();
  facts.wants_arguments_text = copies_text;
  // Definitions of tools, and how to call them, come before the user's text.
  std::string call = copies_text ? of_text : of_object;
  const size_t user_text = call.rfind(kText);
  if (user_text != std::string::npos) call.erase(0, user_text);
  facts.tool_format = detect_tool_format(call);
  const Json arguments = copies_text ? Json(kArgumentsText) : object;
  facts.wants_nine_character_ids = text_with(arguments, "call_0123456789abcdef").empty();
  const Json two_calls = call_messages(content, arguments, kNineCharacters, 2);
  facts.wants_single_calls = rendered(render, two_calls, tools).empty();
  return true;
}

constexpr const char* kTools =
    R"([{"type": "function", "function": {"name": "probe_tool", "description": "none",)"
    R"( "parameters": {"type": "object", "properties": {"probe_key": {"type": "string"}}}}}])";

void probe_tools(const RenderMessages& render, TemplateFacts& facts) {
  Json user = {{"role", "user"}};
  user["content"] = kText;
  if (facts.wants_content_parts) {
    user["content"] = Json::array({{{"type", "text"}, {"text", kText}}});
  }
  facts.renders_tools = contains(rendered(render, Json::array({user}), kTools), "probe_tool");
}

void probe_calls(const RenderMessages& render, TemplateFacts& facts) {
  // Some templates accept conversations with calls only if there are tools.
  for (const std::string& offered : {std::string(), std::string(kTools)}) {
    for (const Json& content : {Json(""), Json(nullptr)}) {
      if (probe_calls(render, content, offered, facts)) return;
    }
  }
}

}  // namespace

TemplateFacts probe_template(const RenderMessages& render) {
  TemplateFacts facts;
  probe_content(render, facts);
  probe_tools(render, facts);
  probe_calls(render, facts);
  return facts;
}

}  // namespace forerun::server
