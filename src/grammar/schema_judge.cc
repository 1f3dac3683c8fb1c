#include "grammar/schema_judge.h"

#include <algorithm>
#include <utility>

#include "base/status_macros.h"
#include "grammar/char_dfa.h"
#include "grammar/pattern.h"
#include "text/utf8.h"

namespace forerun::grammar {
namespace {

constexpr int kMaxJudgeDepth = 16;

Verdict verdict(bool holds) { return holds ? Verdict::kYes : Verdict::kNo; }

bool listed(const Json& values, const Json& value) {
  return values.is_array() && std::find(values.begin(), values.end(), value) != values.end();
}

size_t characters_of(const std::string& text) {
  return static_cast<size_t>(
      std::count_if(text.begin(), text.end(), [](char c) { return (c & 0xc0) != 0x80; }));
}

bool all_differ(const Json& list) {
  for (size_t i = 0; i < list.size(); ++i) {
    for (size_t j = 0; j < i; ++j) {
      if (list[i] == list[j]) return false;
    }
  }
  return true;
}

class Judge {
 public:
  Judge(SchemaResolver& resolver, const std::string& at, int depth)
      : resolver_(resolver), at_(at), depth_(depth) {}

  Result<Verdict> holds(const Json& schema, const Json& value) {
    FORERUN_ASSIGN_OR_RETURN(const Json flat, resolver_.flattened(schema, at_, depth_));
    if (flat.is_boolean()) return verdict(flat == true);
    Verdict all = Verdict::kYes;
    for (const auto& [name, what] : flat.items()) {
      if (is_annotation(name)) continue;
      FORERUN_ASSIGN_OR_RETURN(const Verdict one, keyword(flat, name, what, value));
      if (one == Verdict::kNo) return one;
      all = std::min(all, one);
    }
    return all;
  }

 private:
  Result<Verdict> deeper(const Json& schema, const Json& value) {
    return judge(resolver_, schema, value, at_, depth_ + 1);
  }

  Result<Verdict> keyword(const Json& schema, const std::string& name, const Json& what,
                          const Json& value) {
    if (name == "type") {
      FORERUN_ASSIGN_OR_RETURN(const uint8_t types, types_of(Json{{"type", what}}, at_));
      return verdict((types & type_of_value(value)) != 0);
    }
    if (name == "enum") return verdict(listed(what, value));
    if (name == "const") return verdict(what == value);
    if (name == kExcluded) return verdict(!listed(what, value));
    if ((name == "anyOf" || name == "oneOf") && what.is_array()) {
      return alternatives(what, value, name == "oneOf");
    }
    if (value.is_string()) return of_string(name, what, value);
    if (value.is_number()) return of_number(schema, name, what, value);
    if (value.is_array()) return of_array(schema, name, what, value);
    if (value.is_object()) return of_object(schema, name, what, value);
    return Verdict::kYes;
  }

  Result<Verdict> alternatives(const Json& parts, const Json& value, bool one) {
    size_t yes = 0, unknown = 0;
    for (const Json& part : parts) {
      FORERUN_ASSIGN_OR_RETURN(const Verdict found, deeper(part, value));
      yes += found == Verdict::kYes;
      unknown += found == Verdict::kUnknown;
    }
    if (one && yes > 1) return Verdict::kNo;
    if (unknown > 0 && (one || yes == 0)) return Verdict::kUnknown;
    return verdict(one ? yes == 1 : yes > 0);
  }

  // Returns whether the pattern is found; an error in it is reported where the schema is read.
  Verdict finds(const Json& pattern, const std::string& text) {
    if (!pattern.is_string()) return Verdict::kUnknown;
    const Result<CharNfa> nfa =
        read_pattern(pattern.get_ref<const std::string&>(), resolver_.limits());
    return nfa.ok() ? verdict(accepts(*nfa, text)) : Verdict::kUnknown;
  }

  Verdict of_string(const std::string& name, const Json& what, const Json& value) {
    const std::string& text = value.get_ref<const std::string&>();
    if (name == "minLength" && what.is_number()) return verdict(characters_of(text) >= what);
    if (name == "maxLength" && what.is_number()) return verdict(characters_of(text) <= what);
    if (name == "pattern") return finds(what, text);
    if (name != kTexts) return Verdict::kYes;
    Verdict all = Verdict::kYes;
    for (const Json& part : what) {
      if (part.contains("pattern")) all = std::min(all, finds(part.at("pattern"), text));
      if (!part.contains("notPattern")) continue;
      const Verdict found = finds(part.at("notPattern"), text);
      all = std::min(all, found == Verdict::kYes  ? Verdict::kNo
                          : found == Verdict::kNo ? Verdict::kYes
                                                  : Verdict::kUnknown);
    }
    return all;
  }

  Result<Verdict> of_number(const Json& schema, const std::string& name, const Json& what,
                            const Json& value) {
    const bool bound = name == "minimum" || name == "maximum" || name == "exclusiveMinimum" ||
                       name == "exclusiveMaximum";
    if (!bound && name != "multipleOf") return Verdict::kYes;
    FORERUN_ASSIGN_OR_RETURN(const std::optional<Decimal> limit,
                             decimal_at(schema, name.c_str(), at_));
    const std::optional<Decimal> number = Decimal::parse(value.dump());
    if (!number || !limit) return Verdict::kUnknown;
    if (bound) {
      const int order = compare(*number, *limit);
      const bool least = name == "minimum" || name == "exclusiveMinimum";
      if (order == 0) return verdict(name == "minimum" || name == "maximum");
      return verdict(least ? order > 0 : order < 0);
    }
    constexpr int64_t kMax = 1'000'000'000'000'000;
    if (!what.is_number_integer() || !value.is_number_integer()) return Verdict::kUnknown;
    const int64_t step = limit->floor(kMax), whole = number->floor(kMax);
    if (step <= 0 || step >= kMax || whole >= kMax || whole <= -kMax) return Verdict::kUnknown;
    return verdict(whole % step == 0);
  }

  Result<Verdict> of_array(const Json& schema, const std::string& name, const Json& what,
                           const Json& value) {
    if (name == "minItems" && what.is_number()) return verdict(value.size() >= what);
    if (name == "maxItems" && what.is_number()) return verdict(value.size() <= what);
    if (name == "uniqueItems") return verdict(what != true || all_differ(value));
    if (name == "contains" || name == "unevaluatedItems") return Verdict::kUnknown;
    const auto prefix = schema.find("prefixItems");
    const size_t first = prefix != schema.end() && prefix->is_array() ? prefix->size() : 0;
    Verdict all = Verdict::kYes;
    for (size_t i = 0; i < value.size(); ++i) {
      const bool applies = name == "prefixItems" ? i < first : name == "items" && i >= first;
      if (!applies) continue;
      FORERUN_ASSIGN_OR_RETURN(const Verdict one, deeper(i < first ? what[i] : what, value[i]));
      all = std::min(all, one);
    }
    return all;
  }

  Result<Verdict> of_object(const Json& schema, const std::string& name, const Json& what,
                            const Json& value) {
    if (name == "minProperties" && what.is_number()) return verdict(value.size() >= what);
    if (name == "maxProperties" && what.is_number()) return verdict(value.size() <= what);
    if (name == "unevaluatedProperties") return Verdict::kUnknown;
    if (name == "required" || name == kForbidden) {
      const bool wanted = name == "required";
      return verdict(std::all_of(what.begin(), what.end(), [&](const Json& key) {
        return key.is_string() && value.contains(key.get_ref<const std::string&>()) == wanted;
      }));
    }
    Verdict all = Verdict::kYes;
    const auto patterns = schema.find("patternProperties");
    const auto properties = schema.find("properties");
    for (const auto& [key, member] : value.items()) {
      if (name == "propertyNames") {
        FORERUN_ASSIGN_OR_RETURN(const Verdict one, deeper(what, Json(key)));
        all = std::min(all, one);
      }
      if (name == "properties" && what.contains(key)) {
        FORERUN_ASSIGN_OR_RETURN(const Verdict one, deeper(what.at(key), member));
        all = std::min(all, one);
      }
      bool matched = properties != schema.end() && properties->contains(key);
      if (patterns != schema.end() && patterns->is_object() &&
          (name == "patternProperties" || name == "additionalProperties")) {
        for (const auto& [pattern, part] : patterns->items()) {
          const Verdict found = finds(Json(pattern), key);
          if (found == Verdict::kUnknown) return found;
          if (found == Verdict::kNo) continue;
          matched = true;
          if (name != "patternProperties") continue;
          FORERUN_ASSIGN_OR_RETURN(const Verdict one, deeper(part, member));
          all = std::min(all, one);
        }
      }
      if (name == "additionalProperties" && !matched) {
        FORERUN_ASSIGN_OR_RETURN(const Verdict one, deeper(what, member));
        all = std::min(all, one);
      }
    }
    return all;
  }

  SchemaResolver& resolver_;
  const std::string& at_;
  const int depth_;
};

}  // namespace

Result<Verdict> judge(SchemaResolver& resolver, const Json& schema, const Json& value,
                      const std::string& at, int depth) {
  if (depth > kMaxJudgeDepth) return Verdict::kUnknown;
  return Judge(resolver, at, depth).holds(schema, value);
}

}  // namespace forerun::grammar
