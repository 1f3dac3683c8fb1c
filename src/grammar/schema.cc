#include "grammar/schema.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/status_macros.h"
#include "grammar/schema_reader.h"

namespace forerun::grammar {
namespace {

// Returns the nesting of brackets, so that a text that would overflow the stack is not parsed.
int nesting_of(std::string_view text) {
  int depth = 0, deepest = 0;
  bool quoted = false;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (quoted) {
      if (c == '\\') ++i;
      quoted = c != '"';
    } else if (c == '"') {
      quoted = true;
    } else if (c == '{' || c == '[') {
      deepest = std::max(deepest, ++depth);
    } else if (c == '}' || c == ']') {
      --depth;
    }
  }
  return deepest;
}

// Returns the name of a member that begins like this folder's internal keywords; null if there is
// none.
const std::string* internal_name(const Json& json) {
  for (auto member = json.begin(); json.is_structured() && member != json.end(); ++member) {
    if (json.is_object() && member.key().starts_with(kInternalMark)) return &member.key();
    if (const std::string* name = internal_name(*member)) return name;
  }
  return nullptr;
}

}  // namespace

Result<RuleId> read_json_schema(std::string_view schema, const GrammarLimits& limits,
                                SchemaReading reading, RuleSet& rules) {
  if (schema.size() > limits.max_text_bytes) {
    return refuse_at("#", std::to_string(schema.size()) + " bytes",
                     "up to " + std::to_string(limits.max_text_bytes),
                     StatusCode::kResourceExhausted);
  }
  const int max_nesting = 3 * limits.max_depth;  // "properties" and "anyOf" nest brackets twice
  if (nesting_of(schema) > max_nesting) {
    return refuse_at("#", "brackets nested deeper", std::to_string(max_nesting) + " levels",
                     StatusCode::kResourceExhausted);
  }
  Json document = Json::parse(schema, nullptr, false);
  if (document.is_discarded()) return refuse_at("#", "text that is not JSON", "a JSON schema");
  if (const std::string* name = internal_name(document)) {
    return refuse_at("#", "the name " + shown(Json(*name)),
                     "names that do not begin with the character U+0001", StatusCode::kUnsupported);
  }
  SchemaResolver resolver(std::move(document), limits, reading);
  return SchemaReader(resolver, limits, rules).read_document();
}

}  // namespace forerun::grammar
