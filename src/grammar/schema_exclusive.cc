#include "grammar/schema_exclusive.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "base/status_macros.h"
#include "grammar/char_dfa.h"
#include "grammar/formats.h"
#include "grammar/pattern.h"
#include "grammar/schema_judge.h"

namespace forerun::grammar {
namespace {

constexpr int kMaxExclusiveDepth = 6;

bool forbids(const Json& schema, const std::string& name) {
  const auto forbidden = schema.find(kForbidden);
  return forbidden != schema.end() &&
         std::find(forbidden->begin(), forbidden->end(), name) != forbidden->end();
}

bool requires_property(const Json& schema, const std::string& name) {
  const auto required = schema.find("required");
  return required != schema.end() && required->is_array() &&
         std::find(required->begin(), required->end(), name) != required->end();
}

const Json* property(const Json& schema, const std::string& name) {
  const auto properties = schema.find("properties");
  if (properties == schema.end() || !properties->is_object()) return nullptr;
  const auto found = properties->find(name);
  return found == properties->end() ? nullptr : &*found;
}

// Returns whether `a` requires a property that `b` forbids.
bool demands_what_is_forbidden(const Json& a, const Json& b) {
  const auto required = a.find("required");
  const auto additional = b.find("additionalProperties");
  const bool closed = additional != b.end() && *additional == false &&
                      (!b.contains("patternProperties") || b.at("patternProperties").empty());
  if (required == a.end() || !required->is_array()) return false;
  return std::any_of(required->begin(), required->end(), [&](const Json& name) {
    if (!name.is_string()) return false;
    if (forbids(b, name.get<std::string>())) return true;
    const Json* schema = property(b, name.get<std::string>());
    return schema ? *schema == false : closed;
  });
}

bool bounds_are_apart(const Json& a, const Json& b) {
  const auto below = [](const Json& low, const char* most, const Json& high, const char* least,
                        bool both_inclusive) {
    const auto x = low.find(most);
    const auto y = high.find(least);
    if (x == low.end() || y == high.end() || !x->is_number() || !y->is_number()) return false;
    const double top = x->get<double>(), bottom = y->get<double>();
    return top < bottom || (top == bottom && !both_inclusive);
  };
  const auto in_order = [&](const Json& low, const Json& high) {
    return below(low, "maximum", high, "minimum", true) ||
           below(low, "exclusiveMaximum", high, "minimum", false) ||
           below(low, "maximum", high, "exclusiveMinimum", false) ||
           below(low, "exclusiveMaximum", high, "exclusiveMinimum", false);
  };
  return in_order(a, b) || in_order(b, a);
}

Result<bool> properties_exclude(SchemaResolver& resolver, const Json& a, const Json& b,
                                const std::string& at, int depth) {
  const auto properties = a.find("properties");
  if (properties == a.end() || !properties->is_object()) return false;
  for (const auto& [name, schema] : properties->items()) {
    const Json* other = property(b, name);
    if (!other || !(requires_property(a, name) || requires_property(b, name))) continue;
    FORERUN_ASSIGN_OR_RETURN(const bool excluded,
                             exclude_one_another(resolver, schema, *other, at, depth + 1));
    if (excluded) return true;
  }
  return false;
}

// Returns whether the counts that `least` and `most` bound have no value in common.
bool counts_are_apart(const Json& a, const Json& b, const char* least, const char* most) {
  const auto below = [&](const Json& low, const Json& high) {
    const auto x = low.find(most), y = high.find(least);
    return x != low.end() && y != high.end() && x->is_number() && y->is_number() &&
           x->get<double>() < y->get<double>();
  };
  return below(a, b) || below(b, a);
}

bool may_be_empty(const Json& schema) {
  const auto least = schema.find("minItems");
  return least == schema.end() || !least->is_number() || *least == 0;
}

// Formats that have no text in common with one another.
bool is_distinct_format(const Json& format) {
  for (const char* name :
       {"date", "time", "date-time", "ipv4", "ipv6", "uuid", "email", "duration"}) {
    if (format == name) return true;
  }
  return false;
}

// Returns whether no text satisfies the patterns and distinct formats of both.
bool texts_exclude(const Json& a, const Json& b, const GrammarLimits& limits) {
  std::vector<CharNfa> nfas;
  for (const Json* schema : {&a, &b}) {
    const auto pattern = schema->find("pattern"), format = schema->find("format");
    std::string text;
    if (pattern != schema->end() && pattern->is_string()) {
      text = pattern->get<std::string>();
    } else if (format != schema->end() && is_distinct_format(*format)) {
      text = *pattern_of_format(format->get<std::string>());
    } else {
      return false;
    }
    Result<CharNfa> nfa = read_pattern(text, limits);
    if (!nfa.ok()) return false;
    nfas.push_back(std::move(*nfa));
  }
  const Result<CharDfa> dfa = read_together(nfas, limits);
  return dfa.ok() && texts_where(*dfa, [](uint64_t marks) { return marks == 3; }).states.empty();
}

Result<bool> arrays_exclude(SchemaResolver& resolver, const Json& a, const Json& b,
                            const std::string& at, int depth) {
  if (counts_are_apart(a, b, "minItems", "maxItems")) return true;
  const auto x = a.find("items"), y = b.find("items");
  const bool some = !may_be_empty(a) || !may_be_empty(b);
  if (!some || x == a.end() || y == b.end() || a.contains("prefixItems") ||
      b.contains("prefixItems")) {
    return false;
  }
  return exclude_one_another(resolver, *x, *y, at, depth + 1);
}

// Returns whether the other schema accepts none of a schema's listed values.
Result<bool> values_exclude(SchemaResolver& resolver, const Json& a, const Json& b,
                            const std::string& at, int depth) {
  const bool one = a.contains("const");
  if (!one && !(a.contains("enum") && a.at("enum").is_array())) return false;
  const Json values = one ? Json::array({a.at("const")}) : a.at("enum");
  for (const Json& value : values) {
    FORERUN_ASSIGN_OR_RETURN(const Verdict in_b, judge(resolver, b, value, at, depth));
    if (in_b == Verdict::kNo) continue;
    FORERUN_ASSIGN_OR_RETURN(const Verdict in_a, judge(resolver, a, value, at, depth));
    if (in_a != Verdict::kNo) return false;
  }
  return true;
}

// Returns the types that a schema without `type` allows, according to SchemaReading.
Result<uint8_t> types_read(const SchemaResolver& resolver, const Json& schema,
                           const std::string& at) {
  FORERUN_ASSIGN_OR_RETURN(const uint8_t types, types_of(schema, at));
  const bool meant = resolver.reading() == SchemaReading::kIntent && !schema.contains("type") &&
                     !schema.contains("enum") && !schema.contains("const");
  return meant ? types_suggested(schema) : types;
}

}  // namespace

Result<bool> exclude_one_another(SchemaResolver& resolver, const Json& a, const Json& b,
                                 const std::string& at, int depth) {
  if (depth > kMaxExclusiveDepth) return false;
  FORERUN_ASSIGN_OR_RETURN(const Json first, resolver.flattened(a, at));
  FORERUN_ASSIGN_OR_RETURN(const Json second, resolver.flattened(b, at));
  if (first == false || second == false) return true;
  if (first == true || second == true) return false;
  for (const char* combination : {"anyOf", "oneOf"}) {
    for (const bool swapped : {false, true}) {
      const Json &one = swapped ? second : first, &other = swapped ? first : second;
      const auto parts = one.find(combination);
      if (parts == one.end() || !parts->is_array()) continue;
      bool all = true;
      for (const Json& part : *parts) {
        FORERUN_ASSIGN_OR_RETURN(const bool excluded,
                                 exclude_one_another(resolver, part, other, at, depth + 1));
        all = all && excluded;
      }
      if (all) return true;
    }
  }
  FORERUN_ASSIGN_OR_RETURN(const uint8_t types, types_read(resolver, first, at));
  FORERUN_ASSIGN_OR_RETURN(const uint8_t other_types, types_read(resolver, second, at));
  const int common = types & other_types;
  if (common == 0) return true;
  for (const bool swapped : {false, true}) {
    FORERUN_ASSIGN_OR_RETURN(const bool excluded,
                             values_exclude(resolver, swapped ? second : first,
                                            swapped ? first : second, at, depth + 1));
    if (excluded) return true;
  }
  // Checks each kind of value that both allow.
  if ((common & (kNullType | kBooleanType)) != 0) return false;
  if ((common & kNumberType) != 0 && !bounds_are_apart(first, second)) return false;
  if ((common & kStringType) != 0 && !counts_are_apart(first, second, "minLength", "maxLength") &&
      !texts_exclude(first, second, resolver.limits())) {
    return false;
  }
  if ((common & kArrayType) != 0) {
    FORERUN_ASSIGN_OR_RETURN(const bool excluded,
                             arrays_exclude(resolver, first, second, at, depth));
    if (!excluded) return false;
  }
  if ((common & kObjectType) == 0) return true;
  if (demands_what_is_forbidden(first, second) || demands_what_is_forbidden(second, first) ||
      counts_are_apart(first, second, "minProperties", "maxProperties")) {
    return true;
  }
  return properties_exclude(resolver, first, second, at, depth);
}

}  // namespace forerun::grammar
