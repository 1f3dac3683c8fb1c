#include "grammar/schema_resolver.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include "base/status_macros.h"
#include "grammar/schema_merge.h"

namespace forerun::grammar {
namespace {

constexpr size_t kMaxMerges = 20'000;
constexpr size_t kMaxMergedValues = 1'500'000;  // copied by all merges together

size_t values_in(const Json& json) {
  size_t count = 1;
  if (json.is_structured()) {
    for (const Json& member : json) count += values_in(member);
  }
  return count;
}

int hex_digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if ((c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F')) return (c | 0x20) - 'a' + 10;
  return -1;
}

// Decodes one step of a pointer in a URI fragment: %XX, then ~0 and ~1.
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

// Finds the names that places of `schema` define: $anchor, and identifiers that are fragments.
void find_anchors(const Json& schema, int depth, std::map<std::string, const Json*>& anchors) {
  if (depth == 0 || !schema.is_structured()) return;
  if (schema.is_object()) {
    for (const char* keyword : {"$anchor", "$id", "id"}) {
      const auto found = schema.find(keyword);
      if (found == schema.end() || !found->is_string()) continue;
      const std::string& name = found->get_ref<const std::string&>();
      if (keyword[1] == 'a' && !name.empty()) anchors.try_emplace("#" + name, &schema);
      if (name.size() > 1 && name[0] == '#') anchors.try_emplace(name, &schema);
    }
  }
  for (const Json& member : schema) find_anchors(member, depth - 1, anchors);
}

}  // namespace

SchemaResolver::SchemaResolver(Json document, const GrammarLimits& limits, SchemaReading reading)
    : document_(std::move(document)), limits_(limits), reading_(reading) {
  find_anchors(document_, 3 * limits.max_depth, anchors_);
  if (!document_.is_object()) return;
  if (const auto draft = document_.find("$schema");
      draft != document_.end() && draft->is_string()) {
    const std::string& name = draft->get_ref<const std::string&>();
    for (const char* old : {"draft-03", "draft-04", "draft-06", "draft-07"}) {
      draft_.lone_references |= name.find(old) != std::string::npos;
    }
    draft_.before_draft_6 =
        reading_ == SchemaReading::kLetter &&
        (name.find("draft-03") != std::string::npos || name.find("draft-04") != std::string::npos);
  }
  for (const char* keyword : {"$id", "id"}) {
    const auto id = document_.find(keyword);
    if (id == document_.end() || !id->is_string() || !identifier_.empty()) continue;
    identifier_ = id->get<std::string>();
    identifier_.resize(std::min(identifier_.find('#'), identifier_.size()));
  }
}

bool SchemaResolver::is_reference(const Json& schema) const {
  const auto ref = schema.find("$ref");
  return ref != schema.end() && (draft_.lone_references || !has_assertions(schema, "$ref"));
}

bool SchemaResolver::needs_flattening(const Json& schema) const {
  return schema.contains("$ref") || schema.contains("allOf") || needs_respelling(schema, draft_);
}

Result<const Json*> SchemaResolver::target(const Json& ref, const std::string& at) const {
  const std::string place = child_of(at, "$ref");
  if (!ref.is_string()) return refuse_at(place, shown(ref), "a string");
  std::string text = ref.get<std::string>();
  if (!identifier_.empty() && text.starts_with(identifier_) &&
      (text.size() == identifier_.size() || text[identifier_.size()] == '#')) {
    text = text.size() == identifier_.size() ? "#" : text.substr(identifier_.size());
  }
  if (const auto anchor = anchors_.find(text); anchor != anchors_.end()) return anchor->second;
  if (text != "#" && !text.starts_with("#/")) {
    return refuse_at(place, shown(ref), "\"#\", \"#/...\" or an anchor, a place of this schema",
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
               step.find_first_not_of("0123456789") == std::string::npos &&
               (step == "0" || step[0] != '0')) {  // RFC 6901: no leading zeros
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
  if (!needs_flattening(schema)) return schema;
  merged_values_ += values_in(schema);
  if (depth > limits_.max_depth || ++merges_ > kMaxMerges || merged_values_ > kMaxMergedValues) {
    return refuse_at(at, "$ref and allOf that lead on and on",
                     "up to " + std::to_string(limits_.max_depth) + " levels and " +
                         std::to_string(kMaxMerges) + " merges of " +
                         std::to_string(kMaxMergedValues) + " values",
                     StatusCode::kResourceExhausted);
  }
  FORERUN_RETURN_IF_ERROR(check_keywords(schema, at));
  FORERUN_ASSIGN_OR_RETURN(Json merged, respelled(*this, schema, draft_, at, depth));
  Json ref, parts;
  if (const auto found = merged.find("$ref"); found != merged.end()) ref = std::move(*found);
  if (const auto found = merged.find("allOf"); found != merged.end()) parts = std::move(*found);
  merged.erase("$ref");
  merged.erase("allOf");
  if (!ref.is_null()) {
    FORERUN_ASSIGN_OR_RETURN(const Json* named, target(ref, at));
    FORERUN_ASSIGN_OR_RETURN(const Json part, flattened(*named, child_of(at, "$ref"), depth + 1));
    FORERUN_ASSIGN_OR_RETURN(merged, merge_schemas(merged, part, at));
  }
  if (!parts.is_null()) {
    const std::string place = child_of(at, "allOf");
    if (!parts.is_array()) return refuse_at(place, shown(parts), "a list of schemas");
    for (size_t i = 0; i < parts.size(); ++i) {
      const std::string part_at = child_of(place, std::to_string(i));
      FORERUN_ASSIGN_OR_RETURN(const Json part, flattened(parts[i], part_at, depth + 1));
      FORERUN_ASSIGN_OR_RETURN(merged, merge_schemas(merged, part, part_at));
    }
  }
  return merged;
}

}  // namespace forerun::grammar
