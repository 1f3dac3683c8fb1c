#include "server/output/template_facts.h"

#include "server/output/json_checks.h"

namespace forerun::server {
namespace {

constexpr const char* kText = "probe text";
constexpr const char* kValue = "probe value";
// Two spaces: only who copies the text writes them.
constexpr const char* kArgumentsText = R"({"probe_key":  "probe value"})";

bool contains(const std::string& text, std::string_view part) {
  return text.find(part) != std::string::npos;
}

// What becomes of the conversation; empty where the template refuses it.
std::string rendered(const RenderMessages& render, const Json& messages) {
  const Result<std::string> text = render(dump_json(messages), "");
  return text.ok() ? *text : "";
}

Json call_messages(const Json& content, const Json& arguments, const char* id) {
  Json function = {{"name", "probe_tool"}};
  function["arguments"] = arguments;
  Json call = {{"id", id}, {"type", "function"}};
  call["function"] = std::move(function);
  Json assistant = {{"role", "assistant"}};
  assistant["content"] = content;
  assistant["tool_calls"] = Json::array({std::move(call)});
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

void probe_calls(const RenderMessages& render, TemplateFacts& facts) {
  constexpr const char* kNineCharacters = "Pr0beCa11";
  for (const Json& content : {Json(""), Json(nullptr)}) {
    const std::string of_text =
        rendered(render, call_messages(content, kArgumentsText, kNineCharacters));
    Json object;
    object["probe_key"] = kValue;
    const std::string of_object = rendered(render, call_messages(content, object, kNineCharacters));
    const bool copies_text = contains(of_text, kArgumentsText);
    // A text made JSON once more has its quotes escaped; an object printed as Python does has none.
    const bool takes_object = contains(of_object, kValue) && !contains(of_object, "{'probe_key'");
    if (!copies_text && !takes_object) continue;
    facts.renders_tool_calls = true;
    facts.wants_null_content = content.is_null();
    facts.wants_arguments_text = copies_text;
    facts.tool_format = detect_tool_format(copies_text ? of_text : of_object);
    const Json arguments = copies_text ? Json(kArgumentsText) : object;
    facts.wants_nine_character_ids =
        rendered(render, call_messages(content, arguments, "call_0123456789abcdef")).empty();
    return;
  }
}

}  // namespace

TemplateFacts probe_template(const RenderMessages& render) {
  TemplateFacts facts;
  probe_content(render, facts);
  probe_calls(render, facts);
  return facts;
}

}  // namespace forerun::server
