#include "server/api/format_fields.h"

#include <string>

#include "server/json.h"

namespace forerun::server {
namespace {

using FormatKind = OutputFormat::Kind;

constexpr size_t kMaxChoices = 1024;

// `path` is the path of the format's text in the call; the field is `name` of `fields`.
void set(OrderedFieldReader& fields, const char* name, const std::string& path, FormatField into,
         FormatKind kind, std::string text) {
  if (into.format.kind != FormatKind::kAny) {
    return fields.refuse(name, "nothing beside another field that sets the format of the answer");
  }
  into.format.kind = kind;
  into.format.text = std::move(text);
  into.names.emplace_back("output_format", path);
}

// Returns the schema in {"schema": {...}}, or null. "name" and "strict" are ignored: formats are
// always strict.
const Json* schema_of(const Json& holder) {
  const auto found = holder.find("schema");
  if (found == holder.end()) return nullptr;
  return found->is_object() || found->is_boolean() ? &*found : nullptr;
}

// Returns a grammar that accepts exactly these texts.
std::string choices_grammar(const std::vector<std::string>& choices) {
  std::string rule = "root ::=";
  for (const std::string& choice : choices) {
    rule += (&choice == &choices.front() ? " " : " | ") + grammar_literal(choice);
  }
  return rule;
}

}  // namespace

std::string grammar_literal(std::string_view text) {
  std::string quoted = "\"";
  for (const char letter : text) {
    if (letter == '"' || letter == '\\') quoted += '\\';
    quoted += letter == '\n' ? std::string("\\n") : std::string(1, letter);
  }
  return quoted + '"';
}

void read_response_format(OrderedFieldReader& fields, const char* name, const std::string& path,
                          FormatField format) {
  const Json* const object = fields.any_object(name);
  auto inner = fields.object(name);
  if (!inner) return;
  const std::string accepted =
      "an object with \"type\": \"text\", \"json_object\", or \"json_schema\" with its \"schema\"";
  const auto type = inner->choice("type", {"text", "json_object", "json_schema"});
  if (!type) return fields.refuse(name, accepted);
  if (*type == "text") return;
  // llama-server's "json_object" may have a schema, too.
  if (*type == "json_object" && inner->any("schema") == nullptr) {
    return set(fields, name, path, format, FormatKind::kJsonObject, "");
  }
  const Json* const nested = inner->any_object("json_schema");
  const Json* const schema = schema_of(nested != nullptr ? *nested : *object);
  if (schema == nullptr) return fields.refuse(name, accepted);
  set(fields, name, path + (nested != nullptr ? ".json_schema.schema" : ".schema"), format,
      FormatKind::kJsonSchema, json_line(*schema));
}

namespace {

// Reads vLLM's newer spelling of all guides, one of which may be given at a time.
void read_structured_outputs(OrderedFieldReader& fields, FormatField format) {
  constexpr const char* kName = "structured_outputs";
  auto outputs = fields.object(kName);
  if (!outputs) return;
  const std::string accepted =
      "an object with one of \"json\", \"json_object\", \"regex\", \"choice\" and \"grammar\"";
  const auto json = outputs->any("json");
  const auto json_object = outputs->boolean("json_object");
  const auto regex = outputs->string("regex");
  const auto choices = outputs->string_or_strings("choice", kMaxChoices);
  const auto grammar = outputs->string("grammar");
  if (outputs->any("structural_tag") != nullptr) return fields.refuse(kName, accepted);
  int given = 0;
  const auto take = [&](bool is_given, const char* member, FormatKind kind, auto&& text) {
    if (!is_given) return;
    ++given;
    set(fields, kName, std::string(kName) + "." + member, format, kind, text());
  };
  take(json != nullptr, "json", FormatKind::kJsonSchema,
       [&] { return json->is_string() ? json->get<std::string>() : json_line(*json); });
  take(json_object.value_or(false), "json_object", FormatKind::kJsonObject,
       [] { return std::string(); });
  take(regex.has_value(), "regex", FormatKind::kRegex, [&] { return *regex; });
  take(choices && !choices->empty(), "choice", FormatKind::kGrammar,
       [&] { return choices_grammar(*choices); });
  take(grammar.has_value(), "grammar", FormatKind::kGrammar, [&] { return *grammar; });
  if (given != 1) fields.refuse(kName, accepted);
}

}  // namespace

void read_guides(OrderedFieldReader& fields, FormatField format) {
  for (const char* const name : {"guided_json", "json_schema"}) {
    const Json* const schema = fields.any(name);
    if (schema == nullptr) continue;
    // vLLM also accepts the schema as a text.
    set(fields, name, name, format, FormatKind::kJsonSchema,
        schema->is_string() ? schema->get<std::string>() : json_line(*schema));
  }
  for (const char* const name : {"grammar", "guided_grammar"}) {
    if (const auto text = fields.string(name))
      set(fields, name, name, format, FormatKind::kGrammar, *text);
  }
  if (const auto choices = fields.string_or_strings("guided_choice", kMaxChoices)) {
    if (choices->empty()) return fields.refuse("guided_choice", "a list of texts");
    set(fields, "guided_choice", "guided_choice", format, FormatKind::kGrammar,
        choices_grammar(*choices));
  }
  if (const auto regex = fields.string("guided_regex")) {
    set(fields, "guided_regex", "guided_regex", format, FormatKind::kRegex, *regex);
  }
  read_structured_outputs(fields, format);
}

}  // namespace forerun::server
