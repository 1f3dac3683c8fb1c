// The table of filters with their parameters, and the filters of strings, numbers and any value.
// Those of sequences are in sequence_filters.cc.
#include <array>
#include <charconv>
#include <cmath>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/status_macros.h"
#include "text/jinja/runtime.h"

namespace forerun::text::jinja {
namespace {

struct Filter {
  std::string_view name, parameters;
};

// Every filter with its parameters; those with "*" check theirs themselves.
constexpr Filter kFilters[] = {
    {"abs", ""},
    {"attr", "name"},
    {"batch", "linecount, fill_with?"},
    {"capitalize", ""},
    {"center", "width?"},
    {"count", ""},
    {"d", "default_value?, boolean?"},
    {"default", "default_value?, boolean?"},
    {"dictsort", "case_sensitive?, by?, reverse?"},
    {"e", ""},
    {"escape", ""},
    {"first", ""},
    {"float", "default?"},
    {"forceescape", ""},
    {"format", "*"},
    {"groupby", "attribute, default?, case_sensitive?"},
    {"indent", "width?, first?, blank?"},
    {"int", "default?, base?"},
    {"items", ""},
    {"join", "d?, attribute?"},
    {"last", ""},
    {"length", ""},
    {"list", ""},
    {"lower", ""},
    {"map", "*"},
    {"max", "case_sensitive?, attribute?"},
    {"min", "case_sensitive?, attribute?"},
    {"reject", "*"},
    {"rejectattr", "*"},
    {"replace", "old, new, count?"},
    {"reverse", ""},
    {"round", "precision?, method?"},
    {"safe", ""},
    {"select", "*"},
    {"selectattr", "*"},
    {"slice", "slices, fill_with?"},
    {"sort", "reverse?, case_sensitive?, attribute?"},
    {"string", ""},
    {"sum", "attribute?, start?"},
    {"title", ""},
    {"tojson", "ensure_ascii?, indent?, separators?, sort_keys?"},
    {"trim", "chars?"},
    {"truncate", "length?, killwords?, end?, leeway?"},
    {"unique", "case_sensitive?, attribute?"},
    {"upper", ""},
    {"wordcount", ""},
};

const Filter* find_filter(std::string_view name) {
  for (const Filter& filter : kFilters) {
    if (filter.name == name) return &filter;
  }
  return nullptr;
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
      return bad_value(name, value, "a string, a list, a mapping");
  }
}

Result<Value> to_json_filter(const Value& value, const Arguments& args, Runtime& runtime) {
  JsonStyle style;
  // The order of arguments is that of transformers; Jinja's own filter takes the indent first.
  const Value* indent = args.get(1, "indent");
  const Value* ascii = args.get(0, "ensure_ascii");
  if (indent && !indent->is_none()) {
    FORERUN_ASSIGN_OR_RETURN(const int64_t spaces, int_argument("tojson", indent, 0));
    if (spaces < 0 || spaces > 64) return bad_value("tojson", *indent, "an indent up to 64");
    style.indent = spaces;
    style.item_separator = ",";
  }
  if (ascii) style.ascii_only = ascii->truth();
  if (const Value* separators = args.get(2, "separators")) {
    if (separators->is_list() && separators->as_list().size() == 2) {
      style.item_separator = to_text(separators->as_list()[0]);
      style.key_separator = to_text(separators->as_list()[1]);
    } else if (!separators->is_none()) {
      return bad_value("tojson", *separators, "a pair of separators");
    }
  }
  if (const Value* sort = args.get(3, "sort_keys")) style.sort_keys = sort->truth();
  FORERUN_ASSIGN_OR_RETURN(std::string text, to_json(value, style));
  return make_text(std::move(text), runtime);
}

Result<Value> to_int(const Value& value, const Arguments& args) {
  if (value.is_undefined()) return bad_value("int", value, "a value");
  FORERUN_ASSIGN_OR_RETURN(const int64_t base, int_argument("int", args.get(1, "base"), 10));
  const bool base_fits = base == 0 || (base >= 2 && base <= 36);
  std::optional<Value> made;
  if (value.kind() == Kind::kBigInt) return value;
  if (value.kind() == Kind::kFloat) {
    made = integer_of(value.as_float());
  } else if (value.is_number()) {
    made = Value::integer(value.as_int());
  } else if (value.is_string()) {
    if (base_fits) made = parsed_integer(value.as_string(), base);
    if (!made) {
      const std::optional<double> real = parsed_real(value.as_string());
      if (real) made = integer_of(*real);
    }
  }
  if (made) return *made;
  const Value* fallback = args.get(0, "default");
  return fallback ? *fallback : Value::integer(0);
}

Result<Value> to_float(const Value& value, const Arguments& args) {
  if (value.is_undefined()) return bad_value("float", value, "a value");
  if (value.is_number() || value.kind() == Kind::kBigInt) return Value::real(value.as_float());
  if (value.is_string()) {
    const std::optional<double> number = parsed_real(value.as_string());
    if (number) return Value::real(*number);
  }
  const Value* fallback = args.get(0, "default");
  return fallback ? *fallback : Value::real(0);
}

Result<Value> rounded(const Value& value, const Arguments& args) {
  if (!value.is_number()) return bad_value("round", value, "a number");
  FORERUN_ASSIGN_OR_RETURN(const int64_t digits,
                           int_argument("round", args.get(0, "precision"), 0));
  const Value* method = args.get(1, "method");
  const std::string how = method ? to_text(*method) : "common";
  if (how != "common" && how != "ceil" && how != "floor") {
    return Status(StatusCode::kInvalidArgument,
                  "round: found method " + how + "; accepted: common, ceil, floor");
  }
  const bool is_integer = value.kind() != Kind::kFloat;
  const double scale = std::pow(10.0, static_cast<double>(digits));
  if (how != "common") {
    const double scaled = value.as_float() * scale;
    return Value::real((how == "ceil" ? std::ceil(scaled) : std::floor(scaled)) / scale);
  }
  // Like Python, rounds the double's exact decimal expansion, half to even.
  if (digits < 0 || digits > 300 || !std::isfinite(value.as_float())) {
    const double whole = std::nearbyint(value.as_float() * scale) / scale;
    if (is_integer && digits < 0) return Value::integer(static_cast<int64_t>(whole));
    return Value::real(whole);
  }
  if (is_integer) return Value::integer(value.as_int());
  std::array<char, 800> buffer;
  const auto end = std::to_chars(buffer.data(), buffer.data() + buffer.size(), value.as_float(),
                                 std::chars_format::fixed, static_cast<int>(digits));
  double out = 0;
  std::from_chars(buffer.data(), end.ptr, out);
  return Value::real(out);
}

Result<Value> default_filter(const Value& value, const Arguments& args) {
  const Value* falsy = args.get(1, "boolean");
  const bool missing = value.is_undefined() || (falsy && falsy->truth() && !value.truth());
  if (!missing) return value;
  const Value* fallback = args.get(0, "default_value");
  return fallback ? *fallback : Value::string("");
}

Result<Value> indented(const Value& value, const Arguments& args, Runtime& runtime) {
  std::string prefix(4, ' ');
  if (const Value* width = args.get(0, "width")) {
    if (width->is_string()) {
      prefix = width->as_string();
    } else {
      FORERUN_ASSIGN_OR_RETURN(const int64_t spaces, int_argument("indent", width, 4));
      if (spaces < 0 || spaces > 1024) return bad_value("indent", *width, "up to 1024 spaces");
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
  return make_text_like(std::move(out), value, runtime);
}

std::string with_entities(std::string_view text) {
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

// Returns the text, cut to `length` characters if it has over `leeway` more; cut at a space unless
// killwords.
Result<Value> truncated_text(const Value& value, const Arguments& args, Runtime& runtime) {
  FORERUN_ASSIGN_OR_RETURN(const int64_t length,
                           int_argument("truncate", args.get(0, "length"), 255));
  const Value* end = args.get(2, "end");
  const std::string tail = end ? to_text(*end) : "...";
  FORERUN_ASSIGN_OR_RETURN(const int64_t leeway,
                           int_argument("truncate", args.get(3, "leeway"), 5));
  const int64_t tail_len = static_cast<int64_t>(characters(tail).size());
  if (length < tail_len || leeway < 0) {
    return Status(StatusCode::kInvalidArgument,
                  "truncate: found length " + std::to_string(length) + ", leeway " +
                      std::to_string(leeway) + "; accepted: a length of at least the end's " +
                      std::to_string(tail_len) + ", a leeway of at least 0");
  }
  const std::string text = to_text(value);
  const std::vector<std::string_view> letters = characters(text);
  if (static_cast<int64_t>(letters.size()) - leeway <= length) return value;
  size_t bytes = 0;
  for (int64_t i = 0; i < length - tail_len; ++i) bytes += letters[static_cast<size_t>(i)].size();
  std::string kept = text.substr(0, bytes);
  const Value* kill_words = args.get(1, "killwords");
  if (!(kill_words && kill_words->truth())) kept = kept.substr(0, kept.rfind(' '));
  return make_text_like(kept + tail, value, runtime);
}

Result<Value> replace_filter(const Value& value, const Arguments& args, Runtime& runtime) {
  const Value* pattern = args.get(0, "old");
  const Value* with = args.get(1, "new");
  FORERUN_ASSIGN_OR_RETURN(const int64_t count, int_argument("replace", args.get(2, "count"), -1));
  const std::string text = to_text(value);
  const std::string content = to_text(*with);
  FORERUN_RETURN_IF_ERROR(runtime.budget.spend_text(text.size() * (1 + content.size())));
  return make_text(replaced(text, to_text(*pattern), content, count), runtime);
}

Result<Value> format_filter(const Value& value, const Arguments& args, Runtime& runtime) {
  if (!args.positional.empty() && !args.named.empty()) {
    return Status(StatusCode::kInvalidArgument,
                  "format: found positional and named arguments; accepted: one or the other");
  }
  FORERUN_ASSIGN_OR_RETURN(const Value values, args.named.empty()
                                                   ? Value::list(args.positional, ListForm::kTuple)
                                                   : Value::dict(args.named));
  return percent_format(Value::string_like(to_text(value), value), values, runtime);
}

Result<std::optional<Value>> optional_of(Result<Value> made) {
  if (!made.ok()) return made.status();
  return std::optional<Value>(std::move(made).value());
}

// Applies filters of texts; returns no value if the name is not one of them.
Result<std::optional<Value>> apply_text_filter(const std::string& name, const Value& value,
                                               const Arguments& args, Runtime& runtime) {
  if (name == "replace") return optional_of(replace_filter(value, args, runtime));
  if (name == "indent") return optional_of(indented(value, args, runtime));
  if (name == "format") return optional_of(format_filter(value, args, runtime));
  if (name == "truncate") return optional_of(truncated_text(value, args, runtime));
  std::optional<Value> out;
  const auto text = [&] { return to_text(value); };
  const auto like = [&](std::string made) { return Value::string_like(std::move(made), value); };
  if (name == "safe") {
    out = Value::markup(text());
  } else if (name == "string") {
    out = like(text());
  } else if (name == "escape" || name == "e") {
    out = escaped(value);
  } else if (name == "forceescape") {
    out = escaped(Value::string(text()));
  } else if (name == "trim") {
    const Value* chars = args.get(0, "chars");
    const bool has_chars = chars && !chars->is_none();
    if (has_chars && !chars->is_string()) return bad_value(name, *chars, "a string");
    const std::optional<std::string> set =
        has_chars ? std::optional<std::string>(chars->as_string()) : std::nullopt;
    const std::string whole = text();
    out = like(std::string(stripped(whole, set, true, true)));
  } else if (name == "upper") {
    out = like(upper(text()));
  } else if (name == "lower") {
    out = like(lower(text()));
  } else if (name == "capitalize") {
    out = like(capitalized(text()));
  } else if (name == "title") {
    out = Value::string(titled_words(text()));
  } else if (name == "center") {
    FORERUN_ASSIGN_OR_RETURN(const int64_t width, int_argument(name, args.get(0, "width"), 80));
    if (width > kMaxWidth) return bad_value(name, args.positional[0], "at most 65536");
    out = like(centered(text(), width, " "));
  } else if (name == "wordcount") {
    out = Value::integer(static_cast<int64_t>(split(text(), std::nullopt, -1, false).size()));
  }
  if (out && out->is_string()) {
    FORERUN_RETURN_IF_ERROR(runtime.budget.spend_text(out->as_string().size()));
  }
  return out;
}

}  // namespace

bool is_known_filter(std::string_view name) { return find_filter(name) != nullptr; }

Result<Value> apply_filter(const std::string& name, const Value& value, const Arguments& args,
                           Runtime& runtime) {
  FORERUN_RETURN_IF_ERROR(runtime.budget.spend(1));
  const Filter* known = find_filter(name);
  if (!known) {
    return Status(StatusCode::kUnsupported, "filter: found " + name + ", which is not supported");
  }
  if (known->parameters != "*") FORERUN_RETURN_IF_ERROR(args.check(name, known->parameters));
  if (name == "default" || name == "d") return default_filter(value, args);
  if (name == "tojson") return to_json_filter(value, args, runtime);
  if (name == "length" || name == "count") return length_of(name, value);
  if (name == "int") return to_int(value, args);
  if (name == "float") return to_float(value, args);
  if (name == "round") return rounded(value, args);
  if (name == "abs") {
    if (value.kind() == Kind::kBigInt && !value.as_big().starts_with('-')) return value;
    if (value.kind() == Kind::kFloat) return Value::real(std::fabs(value.as_float()));
    if (!value.is_number() && value.kind() != Kind::kBigInt) {
      return bad_value(name, value, "a number");
    }
    FORERUN_ASSIGN_OR_RETURN(const int order, compare(value, Value::integer(0)));
    return binary(order < 0 ? "-" : "+", Value::integer(0), value, runtime);
  }
  if (name == "attr") return attribute(value, to_text(args.positional[0]));
  FORERUN_ASSIGN_OR_RETURN(const std::optional<Value> text,
                           apply_text_filter(name, value, args, runtime));
  if (text) return *text;
  FORERUN_ASSIGN_OR_RETURN(const std::optional<Value> made,
                           apply_sequence_filter(name, value, args, runtime));
  if (made) return *made;
  return Status(StatusCode::kUnsupported, "filter: found " + name + ", which is not supported");
}

Value escaped(const Value& value) {
  if (value.is_string() && value.is_markup()) return value;
  return Value::markup(with_entities(to_text(value)));
}

}  // namespace forerun::text::jinja
