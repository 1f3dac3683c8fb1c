#include "server/api/format_fields.h"

#include <string>

namespace forerun::server {
namespace {

using Kind = OutputFormat::Kind;

void set(Fields& fields, const char* name, OutputFormat& format, Kind kind, std::string text) {
  if (format.kind != Kind::kAny) {
    return fields.refuse(name, "nothing beside another field that says what the answer is like");
  }
  format.kind = kind;
  format.text = std::move(text);
}

// {"schema": {...}}, with a name and "strict", which is always so here.
const Json* schema_of(const Json& holder) {
  const auto found = holder.find("schema");
  if (found == holder.end()) return nullptr;
  return found->is_object() || found->is_boolean() ? &*found : nullptr;
}

// One of some texts, as a grammar.
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

void read_response_format(Fields& fields, const char* name, OutputFormat& format) {
  const Json* const object = fields.object(name);
  if (object == nullptr) return;
  const std::string accepted =
      "an object with \"type\": \"text\", \"json_object\", or \"json_schema\" with its \"schema\"";
  Fields inner(*object);
  const auto type = inner.choice("type", {"text", "json_object", "json_schema"});
  if (inner.error() || !type) return fields.refuse(name, accepted);
  if (*type == "json_object") return set(fields, name, format, Kind::kJsonObject, "");
  if (*type == "text") return;
  const Json* const nested = inner.object("json_schema");
  const Json* const schema = schema_of(nested != nullptr ? *nested : *object);
  if (schema == nullptr) return fields.refuse(name, accepted);
  set(fields, name, format, Kind::kJsonSchema, json_line(*schema));
}

void read_guides(Fields& fields, OutputFormat& format) {
  if (const Json* const schema = fields.any("guided_json")) {
    // vLLM takes the schema as a text, too.
    set(fields, "guided_json", format, Kind::kJsonSchema,
        schema->is_string() ? schema->get<std::string>() : json_line(*schema));
  }
  for (const char* const name : {"grammar", "guided_grammar"}) {
    if (const auto text = fields.string(name)) set(fields, name, format, Kind::kGrammar, *text);
  }
  if (const auto choices = fields.strings("guided_choice", 1024)) {
    if (choices->empty()) return fields.refuse("guided_choice", "a list of texts");
    set(fields, "guided_choice", format, Kind::kGrammar, choices_grammar(*choices));
  }
  if (fields.any("guided_regex") != nullptr) {
    fields.refuse("guided_regex", "nothing: a grammar or a schema's \"pattern\" says the same");
  }
}

}  // namespace forerun::server
