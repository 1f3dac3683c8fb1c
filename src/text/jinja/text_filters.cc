// Filters that make one text of another.
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/status_macros.h"
#include "text/jinja/builtins.h"
#include "text/jinja/strings.h"

namespace forerun::text::jinja {
namespace {

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

// At most `length` characters and as many more as `leeway`; cut at a space unless killwords.
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

}  // namespace

Value escaped(const Value& value) {
  if (value.is_string() && value.is_markup()) return value;
  return Value::markup(with_entities(to_text(value)));
}

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

}  // namespace forerun::text::jinja
