// Filters over single values; those over sequences are in sequence_filters.cc.
#include <array>
#include <charconv>
#include <cmath>

#include "text/jinja/builtins.h"
#include "text/jinja/json_value.h"
#include "text/jinja/strings.h"

namespace forerun::text::jinja {
namespace {

constexpr std::string_view kFilters[] = {
    "abs",      "attr",   "batch",  "capitalize", "count",      "d",        "default",
    "dictsort", "e",      "escape", "first",      "float",      "groupby",  "indent",
    "int",      "items",  "join",   "last",       "length",     "list",     "lower",
    "map",      "max",    "min",    "reject",     "rejectattr", "replace",  "reverse",
    "round",    "safe",   "select", "selectattr", "sort",       "string",   "sum",
    "title",    "tojson", "trim",   "unique",     "upper",      "wordcount"};

Status bad_argument(const std::string& filter, const Value& found, const char* accepted) {
  return Status(StatusCode::kInvalidArgument,
                filter + ": found " + found.kind_name() + "; accepted: " + accepted);
}

Result<int64_t> int_argument(const std::string& filter, const Value* given, int64_t fallback) {
  if (!given) return fallback;
  if (given->kind() != Kind::kInt && given->kind() != Kind::kBool) {
    return bad_argument(filter, *given, "an integer");
  }
  return given->as_int();
}

Result<Value> length_of(const std::string& name, const Value& value) {
  switch (value.kind()) {
    case Kind::kUndefined:
      return Value::integer(0);
    case Kind::kString:
      return Value::integer(static_cast<int64_t>(characters(value.as_string()).size()));
    case Kind::kList:
      return Value::integer(static_cast<int64_t>(value.as_list().size()));
    case Kind::kDict:
      return Value::integer(static_cast<int64_t>(value.as_dict().size()));
    default:
      return bad_argument(name, value, "a string, a list, a mapping");
  }
}

Result<Value> to_json_filter(const Value& value, const Arguments& args, Runtime& runtime) {
  JsonStyle style;
  // The filter's parameters in transformers: ensure_ascii, indent, separators, sort_keys.
  // Jinja's own takes indent first; an integer in that place can only mean it.
  const Value* indent = args.get(1, "indent");
  const Value* ascii = args.get(0, "ensure_ascii");
  if (ascii && ascii->kind() == Kind::kInt && !indent) std::swap(ascii, indent);
  if (indent && !indent->is_none()) {
    FORERUN_ASSIGN_OR_RETURN(const int64_t spaces, int_argument("tojson", indent, 0));
    if (spaces < 0 || spaces > 64) return bad_argument("tojson", *indent, "an indent up to 64");
    style.indent = spaces;
    style.item_separator = ",";
  }
  if (ascii) style.ascii_only = ascii->truth();
  if (const Value* separators = args.get(2, "separators")) {
    if (separators->is_list() && separators->as_list().size() == 2) {
      style.item_separator = to_text(separators->as_list()[0]);
      style.key_separator = to_text(separators->as_list()[1]);
    } else if (!separators->is_none()) {
      return bad_argument("tojson", *separators, "a pair of separators");
    }
  }
  if (const Value* sort = args.get(3, "sort_keys")) style.sort_keys = sort->truth();
  FORERUN_ASSIGN_OR_RETURN(std::string text, to_json(value, style));
  return make_text(std::move(text), runtime);
}

Result<Value> to_int(const Value& value, const Arguments& args) {
  const Value* fallback = args.get(0, "default");
  if (value.kind() == Kind::kFloat) {
    const double number = std::trunc(value.as_float());
    if (std::fabs(number) < 9.0e18) return Value::integer(static_cast<int64_t>(number));
  } else if (value.is_number()) {
    return Value::integer(value.as_int());
  } else if (value.is_string()) {
    const std::string_view text = stripped(value.as_string(), std::nullopt, true, true);
    const std::string_view digits = text.starts_with('+') ? text.substr(1) : text;
    int64_t number = 0;
    const auto end = std::from_chars(digits.data(), digits.data() + digits.size(), number);
    if (end.ec == std::errc() && end.ptr == digits.data() + digits.size()) {
      return Value::integer(number);
    }
    double real = 0;
    const auto real_end = std::from_chars(digits.data(), digits.data() + digits.size(), real);
    if (real_end.ec == std::errc() && real_end.ptr == digits.data() + digits.size() &&
        std::fabs(real) < 9.0e18) {
      return Value::integer(static_cast<int64_t>(real));
    }
  }
  return fallback ? *fallback : Value::integer(0);
}

Result<Value> to_float(const Value& value, const Arguments& args) {
  if (value.is_number()) return Value::real(value.as_float());
  if (value.is_string()) {
    const std::string_view text = stripped(value.as_string(), std::nullopt, true, true);
    double number = 0;
    const auto end = std::from_chars(text.data(), text.data() + text.size(), number);
    if (end.ec == std::errc() && end.ptr == text.data() + text.size()) return Value::real(number);
  }
  const Value* fallback = args.get(0, "default");
  return fallback ? *fallback : Value::real(0);
}

Result<Value> indented(const Value& value, const Arguments& args, Runtime& runtime) {
  std::string prefix(4, ' ');
  if (const Value* width = args.get(0, "width")) {
    if (width->is_string()) {
      prefix = width->as_string();
    } else {
      FORERUN_ASSIGN_OR_RETURN(const int64_t spaces, int_argument("indent", width, 4));
      if (spaces < 0 || spaces > 1024) return bad_argument("indent", *width, "up to 1024 spaces");
      prefix.assign(static_cast<size_t>(spaces), ' ');
    }
  }
  const Value* first_line = args.get(1, "first");
  const Value* blank_lines = args.get(2, "blank");
  const std::string text = to_text(value);
  std::string out;
  size_t from = 0;
  bool first = true;
  while (true) {
    const size_t newline = text.find('\n', from);
    const bool last = newline == std::string::npos;
    const std::string_view line =
        std::string_view(text).substr(from, last ? std::string::npos : newline - from);
    const bool wanted = first ? first_line && first_line->truth()
                              : !line.empty() || (blank_lines && blank_lines->truth());
    if (wanted) out += prefix;
    out.append(line);
    if (last) break;
    out.push_back('\n');
    FORERUN_RETURN_IF_ERROR(runtime.budget.spend(1 + prefix.size() / 64));
    from = newline + 1;
    first = false;
  }
  return make_text(std::move(out), runtime);
}

std::string escaped(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (c == '&') {
      out += "&amp;";
    } else if (c == '<') {
      out += "&lt;";
    } else if (c == '>') {
      out += "&gt;";
    } else if (c == '"') {
      out += "&#34;";
    } else if (c == '\'') {
      out += "&#39;";
    } else {
      out.push_back(c);
    }
  }
  return out;
}

Result<Value> rounded(const Value& value, const Arguments& args) {
  if (!value.is_number()) return bad_argument("round", value, "a number");
  FORERUN_ASSIGN_OR_RETURN(const int64_t digits,
                           int_argument("round", args.get(0, "precision"), 0));
  const Value* method = args.get(1, "method");
  const std::string how = method ? to_text(*method) : "common";
  const double scale = std::pow(10.0, static_cast<double>(digits));
  const double scaled = value.as_float() * scale;
  const double whole = how == "ceil"    ? std::ceil(scaled)
                       : how == "floor" ? std::floor(scaled)
                                        : std::nearbyint(scaled);
  return Value::real(whole / scale);
}

Result<Value> replace_filter(const Value& value, const Arguments& args, Runtime& runtime) {
  const Value* pattern = args.get(0, "old");
  const Value* with = args.get(1, "new");
  if (!pattern || !with) {
    return Status(StatusCode::kInvalidArgument, "replace: accepted: (old, new, count)");
  }
  FORERUN_ASSIGN_OR_RETURN(const int64_t count, int_argument("replace", args.get(2, "count"), -1));
  const std::string text = to_text(value);
  const std::string content = to_text(*with);
  FORERUN_RETURN_IF_ERROR(runtime.budget.spend_text(text.size() * (1 + content.size())));
  return make_text(replaced(text, to_text(*pattern), content, count), runtime);
}

Result<Value> default_filter(const Value& value, const Arguments& args) {
  const Value* falsy = args.get(1, "boolean");
  const bool missing = value.is_undefined() || (falsy && falsy->truth() && !value.truth());
  if (!missing) return value;
  const Value* fallback = args.get(0, "default_value");
  return fallback ? *fallback : Value::string("");
}

}  // namespace

bool is_known_filter(std::string_view name) {
  for (const std::string_view known : kFilters) {
    if (known == name) return true;
  }
  return false;
}

Result<Value> apply_filter(const std::string& name, const Value& value, const Arguments& args,
                           Runtime& runtime) {
  FORERUN_RETURN_IF_ERROR(runtime.budget.spend(1));
  if (name == "safe") return value;
  if (name == "default" || name == "d") return default_filter(value, args);
  if (name == "tojson") return to_json_filter(value, args, runtime);
  if (name == "length" || name == "count") return length_of(name, value);
  if (name == "string") return make_text(to_text(value), runtime);
  if (name == "trim") {
    const Value* chars = args.get(0, "chars");
    const std::optional<std::string> set =
        chars && !chars->is_none() ? std::optional<std::string>(to_text(*chars)) : std::nullopt;
    return make_text(std::string(stripped(to_text(value), set, true, true)), runtime);
  }
  if (name == "upper") return make_text(upper(to_text(value)), runtime);
  if (name == "lower") return make_text(lower(to_text(value)), runtime);
  if (name == "capitalize") return make_text(capitalized(to_text(value)), runtime);
  if (name == "title") return make_text(titled_words(to_text(value)), runtime);
  if (name == "replace") return replace_filter(value, args, runtime);
  if (name == "indent") return indented(value, args, runtime);
  if (name == "escape" || name == "e") return make_text(escaped(to_text(value)), runtime);
  if (name == "int") return to_int(value, args);
  if (name == "float") return to_float(value, args);
  if (name == "round") return rounded(value, args);
  if (name == "abs") {
    if (!value.is_number()) return bad_argument(name, value, "a number");
    if (value.kind() == Kind::kFloat) return Value::real(std::fabs(value.as_float()));
    return value.as_int() < 0 ? binary("-", Value::integer(0), value, runtime) : value;
  }
  if (name == "attr") {
    const Value* member = args.get(0, "name");
    return attribute(value, member ? to_text(*member) : "");
  }
  if (name == "wordcount") {
    return Value::integer(
        static_cast<int64_t>(split(to_text(value), std::nullopt, -1, false).size()));
  }
  FORERUN_ASSIGN_OR_RETURN(const std::optional<Value> made,
                           apply_sequence_filter(name, value, args, runtime));
  if (made) return *made;
  return Status(StatusCode::kUnsupported, "found filter " + name + ", which is not known");
}

}  // namespace forerun::text::jinja
