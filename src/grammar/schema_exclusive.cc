#include "grammar/schema_exclusive.h"

#include <algorithm>
#include <utility>

#include "base/status_macros.h"

namespace forerun::grammar {
namespace {

constexpr int kMostDepth = 6;

// The values that enum or const list; null: any.
Json listed_values(const Json& schema) {
  if (const auto value = schema.find("const"); value != schema.end()) return Json::array({*value});
  const auto values = schema.find("enum");
  return values != schema.end() && values->is_array() ? *values : Json();
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

// Whether `a` demands a property that `b` forbids.
bool demands_what_is_forbidden(const Json& a, const Json& b) {
  const auto required = a.find("required");
  const auto additional = b.find("additionalProperties");
  const bool closed = additional != b.end() && *additional == false;
  if (required == a.end() || !required->is_array()) return false;
  return std::any_of(required->begin(), required->end(), [&](const Json& name) {
    if (!name.is_string()) return false;
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

}  // namespace

Result<bool> exclude_one_another(SchemaResolver& resolver, const Json& a, const Json& b,
                                 const std::string& at, int depth) {
  if (depth > kMostDepth) return false;
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
  FORERUN_ASSIGN_OR_RETURN(const uint8_t types, types_of(first, at));
  FORERUN_ASSIGN_OR_RETURN(const uint8_t other_types, types_of(second, at));
  const int common = types & other_types;
  if (common == 0) return true;
  const Json values = listed_values(first), others = listed_values(second);
  if (!values.is_null() && !others.is_null()) {
    return std::none_of(values.begin(), values.end(), [&](const Json& value) {
      return std::find(others.begin(), others.end(), value) != others.end();
    });
  }
  if ((common & ~kNumberType) == 0) return bounds_are_apart(first, second);
  if (common != kObjectType) return false;
  if (demands_what_is_forbidden(first, second) || demands_what_is_forbidden(second, first)) {
    return true;
  }
  return properties_exclude(resolver, first, second, at, depth);
}

}  // namespace forerun::grammar
