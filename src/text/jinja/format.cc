// Python's two ways to put values into a text: "%s" % value and "{}".format(value).
#include <algorithm>
#include <optional>

#include "base/status_macros.h"
#include "text/jinja/builtins.h"
#include "text/jinja/format_spec.h"
#include "text/jinja/numbers.h"
#include "text/jinja/strings.h"

namespace forerun::text::jinja {
namespace {

class BraceFormatter {
 public:
  BraceFormatter(const Value& pattern, const Arguments& args, Runtime& runtime)
      : is_markup_(pattern.is_markup()), args_(args), runtime_(runtime) {}

  Result<std::string> run(std::string_view text, int depth) {
    if (depth > 1) return broken_format("found fields nested too deep");
    std::string out;
    while (!text.empty()) {
      const size_t brace = text.find_first_of("{}");
      out.append(text.substr(0, brace));
      if (brace == std::string_view::npos) break;
      const char c = text[brace];
      text.remove_prefix(brace + 1);
      if (text.starts_with(c)) {
        out.push_back(c);
        text.remove_prefix(1);
        continue;
      }
      if (c == '}') return broken_format("found a single }");
      FORERUN_ASSIGN_OR_RETURN(const std::string made, field(text, depth));
      out += made;
      FORERUN_RETURN_IF_ERROR(runtime_.budget.spend_text(out.size()));
    }
    return out;
  }

 private:
  // One field behind its "{"; takes it off `text`, "}" included.
  Result<std::string> field(std::string_view& text, int depth) {
    size_t name_end = 0;
    bool in_brackets = false;
    while (name_end < text.size() &&
           (in_brackets ||
            (text[name_end] != '}' && text[name_end] != ':' && text[name_end] != '!'))) {
      if (text[name_end] == '{') return broken_format("found { within a field's name");
      if (text[name_end] == '[') in_brackets = true;
      if (text[name_end] == ']') in_brackets = false;
      ++name_end;
    }
    if (name_end >= text.size()) return broken_format("found { without its }");
    FORERUN_ASSIGN_OR_RETURN(Value value, named(text.substr(0, name_end)));
    text.remove_prefix(name_end);
    if (text[0] == '!') {
      const char conversion = text.size() > 1 ? text[1] : ' ';
      if (conversion != 'r' && conversion != 's') {
        return broken_format("found conversion !" + std::string(1, conversion) +
                             "; accepted: !r, !s");
      }
      value = Value::string(conversion == 'r' ? to_repr(value) : to_text(value));
      text.remove_prefix(2);
    }
    std::string spec;
    if (text.starts_with(':')) {
      text.remove_prefix(1);
      size_t end = 0;
      int open = 0;
      while (end < text.size() && (open > 0 || text[end] != '}')) {
        if (text[end] == '{') ++open;
        if (text[end] == '}') --open;
        ++end;
      }
      FORERUN_ASSIGN_OR_RETURN(spec, run(text.substr(0, end), depth + 1));
      text.remove_prefix(end);
    }
    if (!text.starts_with('}')) return broken_format("found { without its }");
    text.remove_prefix(1);
    FORERUN_ASSIGN_OR_RETURN(std::string made, formatted(value, spec));
    const bool stays = !is_markup_ || (value.is_string() && value.is_markup());
    return stays ? made : escaped(Value::string(std::move(made))).as_string();
  }

  // "0", "name", "", each with .attributes and [items] behind it.
  Result<Value> named(std::string_view path) {
    const size_t first_end = std::min(path.find_first_of(".["), path.size());
    const std::string_view first = path.substr(0, first_end);
    path.remove_prefix(first_end);
    const bool is_number =
        !first.empty() && first.find_first_not_of("0123456789") == std::string_view::npos;
    const Value* found = nullptr;
    if (first.empty() || is_number) {
      const bool numbers_itself = first.empty();
      if (numbering_ && *numbering_ != numbers_itself) {
        return broken_format("found both {} and numbered fields");
      }
      numbering_ = numbers_itself;
      std::string_view digits = first;
      FORERUN_ASSIGN_OR_RETURN(const int64_t at, numbers_itself ? Result<int64_t>(next_++)
                                                                : take_number(digits, 1 << 20));
      const auto index = static_cast<size_t>(at);
      if (index < args_.positional.size()) found = &args_.positional[index];
    } else {
      for (const auto& argument : args_.named) {
        if (argument.first == first) found = &argument.second;
      }
    }
    if (!found)
      return broken_format("found field {" + std::string(first) + "} without its argument");
    Value value = *found;
    while (!path.empty()) {
      const bool is_item = path[0] == '[';
      path.remove_prefix(1);
      const size_t end = is_item ? path.find(']') : std::min(path.find_first_of(".["), path.size());
      if (end == std::string_view::npos) return broken_format("found [ without its ]");
      const std::string part(path.substr(0, end));
      path.remove_prefix(is_item ? end + 1 : end);
      const bool is_index =
          is_item && !part.empty() && part.find_first_not_of("0123456789") == std::string::npos;
      const std::optional<Value> index =
          is_index ? integer_of_digits(part, 10, false) : std::nullopt;
      Result<Value> next = is_item ? item(value, index ? *index : Value::string(part), runtime_)
                                   : attribute(value, part);
      if (!next.ok()) return next.status();
      value = std::move(next).value();
    }
    return value;
  }

  bool is_markup_;
  const Arguments& args_;
  Runtime& runtime_;
  int64_t next_ = 0;
  std::optional<bool> numbering_;  // true: {}, false: {0}
};

}  // namespace

Result<Value> brace_format(const Value& text, const Arguments& args, Runtime& runtime) {
  BraceFormatter formatter(text, args, runtime);
  FORERUN_ASSIGN_OR_RETURN(std::string out, formatter.run(text.as_string(), 0));
  return make_text_like(std::move(out), text, runtime);
}

Result<Value> percent_format(const Value& pattern, const Value& values, Runtime& runtime) {
  const List one(1, values);
  const List& given = values.is_tuple() ? values.as_list() : one;
  size_t used = 0;
  std::string_view text = pattern.as_string();
  std::string out;
  while (true) {
    const size_t at = text.find('%');
    out.append(text.substr(0, at));
    if (at == std::string_view::npos) break;
    text.remove_prefix(at + 1);
    Value value;
    bool is_member = false;
    if (text.starts_with('(')) {
      const size_t end = text.find(')');
      if (end == std::string_view::npos || !values.is_dict()) {
        return broken_format("found %( without a mapping");
      }
      const Value* member = values.find(text.substr(1, end - 1));
      if (!member) return broken_format("found no member " + std::string(text.substr(1, end - 1)));
      value = *member;
      is_member = true;
      text.remove_prefix(end + 1);
    }
    Spec spec;
    for (; !text.empty() && std::string_view("#0- +").find(text[0]) != std::string_view::npos;
         text.remove_prefix(1)) {
      if (text[0] == '#') spec.alternate = true;
      if (text[0] == '-') spec.align = '<';
      if (text[0] == '+' || (text[0] == ' ' && !spec.sign)) spec.sign = text[0];
      if (text[0] == '0' && spec.align == 0) {
        spec.fill = "0";
        spec.align = '=';
      }
    }
    if (spec.align == '<') spec.fill = " ";
    FORERUN_ASSIGN_OR_RETURN(spec.width, take_number(text, kMaxWidth));
    if (text.starts_with('.')) {
      text.remove_prefix(1);
      FORERUN_ASSIGN_OR_RETURN(spec.precision, take_number(text, kMaxPrecision));
    }
    if (text.empty()) return broken_format("found % without its conversion");
    spec.type = text[0];
    text.remove_prefix(1);
    if (spec.type == '%') {
      out.push_back('%');
      continue;
    }
    if (!is_member) {
      if (used >= given.size()) return broken_format("found fewer values than conversions");
      value = given[used++];
    }
    FORERUN_ASSIGN_OR_RETURN(std::string made, converted(value, spec));
    const bool stays = !pattern.is_markup() || (value.is_string() && value.is_markup());
    out += stays ? made : escaped(Value::string(std::move(made))).as_string();
    FORERUN_RETURN_IF_ERROR(runtime.budget.spend_text(out.size()));
  }
  if (used < given.size() && !values.is_dict()) {
    return broken_format("found more values than conversions");
  }
  return make_text_like(std::move(out), pattern, runtime);
}

}  // namespace forerun::text::jinja
