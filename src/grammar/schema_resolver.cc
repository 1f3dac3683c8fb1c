#include "grammar/schema_resolver.h"

#include <string_view>
#include <utility>

#include "base/status_macros.h"
#include "grammar/schema_merge.h"

namespace forerun::grammar {
namespace {

constexpr size_t kMostMerges = 5000;

int hex_digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if ((c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F')) return (c | 0x20) - 'a' + 10;
  return -1;
}

// One step of a pointer in a URI fragment: %XX, then ~0 and ~1.
std::string unescaped(std::string_view step) {
  std::string decoded;
  for (size_t i = 0; i < step.size(); ++i) {
    if (step[i] == '%' && i + 2 < step.size() && hex_digit(step[i + 1]) >= 0 &&
        hex_digit(step[i + 2]) >= 0) {
      decoded += static_cast<char>(hex_digit(step[i + 1]) * 16 + hex_digit(step[i + 2]));
      i += 2;
    } else {
      decoded += step[i];
    }
  }
  std::string name;
  for (size_t i = 0; i < decoded.size(); ++i) {
    const bool escape = decoded[i] == '~' && i + 1 < decoded.size();
    if (escape && (decoded[i + 1] == '0' || decoded[i + 1] == '1')) {
      name += decoded[++i] == '0' ? '~' : '/';
    } else {
      name += decoded[i];
    }
  }
  return name;
}

}  // namespace

Result<const Json*> SchemaResolver::target(const Json& ref, const std::string& at) const {
  const std::string place = child_of(at, "$ref");
  if (!ref.is_string()) return refuse_at(place, shown(ref), "a string");
  const std::string& text = ref.get_ref<const std::string&>();
  if (text != "#" && !text.starts_with("#/")) {
    return refuse_at(place, shown(ref), "\"#\" or \"#/...\", a place of this schema",
                     StatusCode::kUnsupported);
  }
  const Json* found = &document_;
  std::string_view rest = std::string_view(text).substr(1);
  while (!rest.empty()) {
    rest.remove_prefix(1);
    const size_t end = std::min(rest.find('/'), rest.size());
    const std::string step = unescaped(rest.substr(0, end));
    rest.remove_prefix(end);
    const Json* next = nullptr;
    if (found->is_object()) {
      if (const auto member = found->find(step); member != found->end()) next = &*member;
    } else if (found->is_array() && !step.empty() && step.size() < 7 &&
               step.find_first_not_of("0123456789") == std::string::npos) {
      const auto index = static_cast<size_t>(std::stoul(step));
      if (index < found->size()) next = &(*found)[index];
    }
    if (!next) return refuse_at(place, shown(ref), "a place that the schema has");
    found = next;
  }
  return found;
}

Result<Json> SchemaResolver::flattened(const Json& schema, const std::string& at, int depth) {
  if (!schema.is_object()) {
    if (schema.is_boolean()) return schema;
    return refuse_at(at, shown(schema), "a schema: an object, true or false");
  }
  if (!schema.contains("$ref") && !schema.contains("allOf")) return schema;
  if (depth > limits_.max_depth || ++merges_ > kMostMerges) {
    return refuse_at(at, "$ref and allOf that lead on and on",
                     "up to " + std::to_string(limits_.max_depth) + " levels and " +
                         std::to_string(kMostMerges) + " merges",
                     StatusCode::kResourceExhausted);
  }
  FORERUN_RETURN_IF_ERROR(check_keywords(schema, at));
  Json merged = schema;
  merged.erase("$ref");
  merged.erase("allOf");
  if (const auto ref = schema.find("$ref"); ref != schema.end()) {
    FORERUN_ASSIGN_OR_RETURN(const Json* named, target(*ref, at));
    FORERUN_ASSIGN_OR_RETURN(const Json part, flattened(*named, child_of(at, "$ref"), depth + 1));
    FORERUN_ASSIGN_OR_RETURN(merged, merge_schemas(merged, part, at));
  }
  if (const auto parts = schema.find("allOf"); parts != schema.end()) {
    const std::string place = child_of(at, "allOf");
    if (!parts->is_array()) return refuse_at(place, shown(*parts), "a list of schemas");
    for (size_t i = 0; i < parts->size(); ++i) {
      const std::string part_at = child_of(place, std::to_string(i));
      FORERUN_ASSIGN_OR_RETURN(const Json part, flattened((*parts)[i], part_at, depth + 1));
      FORERUN_ASSIGN_OR_RETURN(merged, merge_schemas(merged, part, part_at));
    }
  }
  return merged;
}

}  // namespace forerun::grammar
