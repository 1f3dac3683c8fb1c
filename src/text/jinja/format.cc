// Python's two ways to insert values into a text, "%s" % value and "{}".format(value), and its
// format of one value: the specification after ":" in "{:>5.2f}", and the flags of "%5.2f", which
// mean nearly the same.
#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <optional>
#include <vector>

#include "base/status_macros.h"
#include "text/jinja/runtime.h"
#include "text/utf8.h"

namespace forerun::text::jinja {
namespace {

constexpr int64_t kMaxPrecision = 300;

// The format of one value.
struct Spec {
  std::string fill = " ";
  char align = 0;  // < > ^ =, 0: the default of the kind
  char sign = 0;   // + or space, 0: no sign before positive numbers
  bool alternate = false;
  int64_t width = 0;
  char grouping = 0;  // , or _
  std::optional<int64_t> precision;
  char type = 0;
};

// Returns kInvalidArgument for a format.
Status broken_format(const std::string& message) {
  return Status(StatusCode::kInvalidArgument, "format: " + message);
}

// Takes the digits off the front of `text`; fails above `max_number`.
Result<int64_t> take_number(std::string_view& text, int64_t max_number) {
  int64_t number = 0;
  while (!text.empty() && text[0] >= '0' && text[0] <= '9') {
    number = number * 10 + (text[0] - '0');
    if (number > max_number)
      return broken_format("found a size past " + std::to_string(max_number));
    text.remove_prefix(1);
  }
  return number;
}

bool is_align(char c) { return c == '<' || c == '>' || c == '^' || c == '='; }

// Parses [[fill]align][sign][#][0][width][grouping][.precision][type].
Result<Spec> parse_spec(std::string_view text) {
  Spec spec;
  const std::string whole(text);
  const uint32_t first_len = first_code_point(text).len_bytes;
  if (text.size() > first_len && is_align(text[first_len])) {
    spec.fill = std::string(text.substr(0, first_len));
    spec.align = text[first_len];
    text.remove_prefix(first_len + 1);
  } else if (!text.empty() && is_align(text[0])) {
    spec.align = text[0];
    text.remove_prefix(1);
  }
  if (!text.empty() && (text[0] == '+' || text[0] == '-' || text[0] == ' ')) {
    if (text[0] != '-') spec.sign = text[0];
    text.remove_prefix(1);
  }
  if (text.starts_with('#')) {
    spec.alternate = true;
    text.remove_prefix(1);
  }
  if (text.starts_with('0')) {
    if (spec.align == 0) {
      spec.fill = "0";
      spec.align = '=';
    }
    text.remove_prefix(1);
  }
  FORERUN_ASSIGN_OR_RETURN(spec.width, take_number(text, kMaxWidth));
  if (!text.empty() && (text[0] == ',' || text[0] == '_')) {
    spec.grouping = text[0];
    text.remove_prefix(1);
  }
  if (text.starts_with('.')) {
    text.remove_prefix(1);
    if (text.empty() || text[0] < '0' || text[0] > '9') return broken_format("found no precision");
    FORERUN_ASSIGN_OR_RETURN(spec.precision, take_number(text, kMaxPrecision));
  }
  if (!text.empty()) {
    spec.type = text[0];
    text.remove_prefix(1);
  }
  if (!text.empty()) return broken_format("found specification " + whole);
  return spec;
}

// Inserts a separator between groups of `size` digits of the whole part, with which `digits`
// begins.
std::string grouped(const std::string& digits, char separator, size_t size) {
  size_t whole = 0;
  while (whole < digits.size() && isalnum(static_cast<unsigned char>(digits[whole]))) ++whole;
  std::string out;
  for (size_t i = 0; i < whole; ++i) {
    if (i > 0 && (whole - i) % size == 0) out.push_back(separator);
    out.push_back(digits[i]);
  }
  return out + digits.substr(whole);
}

std::string with_width(const std::string& text, const Spec& spec, char own_align) {
  const char align = spec.align ? spec.align : own_align;
  return padded(text, spec.width, spec.fill,
                align == '<'   ? Align::kLeft
                : align == '^' ? Align::kCenter
                               : Align::kRight);
}

// Returns sign, prefix and digits, with padding where the specification puts it.
std::string number_field(bool negative, const std::string& prefix, std::string digits,
                         const Spec& spec) {
  std::string lead = negative ? "-" : spec.sign ? std::string(1, spec.sign) : "";
  lead += prefix;
  if (spec.grouping) {
    const bool is_decimal =
        spec.type != 'x' && spec.type != 'X' && spec.type != 'b' && spec.type != 'o';
    digits = grouped(digits, spec.grouping, is_decimal ? 3 : 4);
  }
  if (spec.align != '=') return with_width(lead + digits, spec, '>');
  const int64_t room = spec.width - static_cast<int64_t>(lead.size());
  return lead + padded(digits, room, spec.fill, Align::kRight);
}

Result<std::string> real_field(double number, const Spec& spec) {
  const bool negative = std::signbit(number) && !std::isnan(number);
  const double magnitude = std::fabs(number);
  const char type = spec.type;
  const char lower_type = static_cast<char>(type | 0x20);
  std::string digits;
  if (!std::isfinite(number)) {
    digits = std::isnan(number) ? "nan" : "inf";
  } else if (type == 0 && !spec.precision) {
    digits = to_text(Value::real(magnitude));
  } else {
    std::array<char, 1024> buffer;
    const double shown = type == '%' ? magnitude * 100 : magnitude;
    const auto format = lower_type == 'e'                  ? std::chars_format::scientific
                        : lower_type == 'f' || type == '%' ? std::chars_format::fixed
                                                           : std::chars_format::general;
    int precision = static_cast<int>(spec.precision.value_or(6));
    if (format == std::chars_format::general && precision == 0) precision = 1;
    const auto end =
        std::to_chars(buffer.data(), buffer.data() + buffer.size(), shown, format, precision);
    digits.assign(buffer.data(), end.ptr);
    // Without a type a number keeps a digit after its point.
    if (type == 0 && digits.find_first_of(".e") == std::string::npos) digits += ".0";
    if (type == '%') digits += '%';
  }
  if (type == 'E' || type == 'G' || type == 'F') digits = upper(digits);
  return number_field(negative, "", std::move(digits), spec);
}

Result<std::string> integer_field(const Value& value, const Spec& spec) {
  const std::string decimal =
      value.kind() == Kind::kBigInt ? value.as_big() : std::to_string(value.as_int());
  const bool negative = decimal.starts_with('-');
  if (spec.precision) return broken_format("found a precision for an integer");
  std::string digits = decimal.substr(negative ? 1 : 0);
  std::string prefix;
  const unsigned base = spec.type == 'b'                       ? 2
                        : spec.type == 'o'                     ? 8
                        : spec.type == 'x' || spec.type == 'X' ? 16
                                                               : 10;
  if (spec.type == 'c') {
    if (value.kind() == Kind::kBigInt || negative || value.as_int() > 0x10ffff) {
      return broken_format("%c: found " + decimal + "; accepted: a character's number");
    }
    std::string text;
    append_utf8(static_cast<char32_t>(value.as_int()), text);
    return with_width(text, spec, '<');
  }
  if (base != 10) {
    if (value.kind() == Kind::kBigInt) return broken_format("found " + decimal + " past 64 bits");
    const auto magnitude = negative ? uint64_t{0} - static_cast<uint64_t>(value.as_int())
                                    : static_cast<uint64_t>(value.as_int());
    std::array<char, 80> buffer;
    const auto end = std::to_chars(buffer.data(), buffer.data() + buffer.size(), magnitude,
                                   static_cast<int>(base));
    digits.assign(buffer.data(), end.ptr);
    if (spec.alternate) prefix = std::string("0") + static_cast<char>(spec.type | 0x20);
    if (spec.type == 'X') {
      digits = upper(digits);
      prefix = upper(prefix);
    }
  }
  return number_field(negative, prefix, std::move(digits), spec);
}

Result<std::string> text_field(const std::string& text, const Spec& spec) {
  std::string out = text;
  if (spec.precision) {
    const std::vector<std::string_view> letters = characters(text);
    const auto count = static_cast<size_t>(*spec.precision);
    if (count < letters.size()) {
      out = text.substr(0, static_cast<size_t>(letters[count].data() - letters[0].data()));
    }
  }
  return with_width(out, spec, '<');
}

bool is_real_type(char type) {
  return std::string_view("eEfFgG%").find(type) != std::string_view::npos && type != 0;
}

// Python's format(value, spec).
Result<std::string> formatted(const Value& value, std::string_view text) {
  if (text.empty()) return to_text(value);
  FORERUN_ASSIGN_OR_RETURN(const Spec spec, parse_spec(text));
  const auto wrong_type = [&] {
    return broken_format(std::string("found type ") + spec.type + " for " + value.kind_name());
  };
  switch (value.kind()) {
    case Kind::kString:
      if (spec.type != 0 && spec.type != 's') return wrong_type();
      if (spec.align == '=' || spec.sign || spec.grouping) {
        return broken_format("found a number's specification for a string");
      }
      return text_field(value.as_string(), spec);
    case Kind::kBool:
    case Kind::kInt:
    case Kind::kBigInt:
      if (is_real_type(spec.type)) return real_field(value.as_float(), spec);
      if (spec.type != 0 && std::string_view("dnboxXc").find(spec.type) == std::string_view::npos) {
        return wrong_type();
      }
      return integer_field(value, spec);
    case Kind::kFloat:
      if (spec.type != 0 && spec.type != 'n' && !is_real_type(spec.type)) return wrong_type();
      return real_field(value.as_float(), spec);
    default:
      return broken_format(std::string("found a specification for ") + value.kind_name());
  }
}

// Applies a conversion of "%": its flags are those of `spec`, its letter is the type.
Result<std::string> converted(const Value& value, Spec spec) {
  const char type = spec.type;
  if (type == 's' || type == 'r') {
    if (spec.align == '=') spec.align = '>';
    if (spec.align == 0) spec.align = '>';
    if (spec.fill == "0") spec.fill = " ";
    return text_field(type == 's' ? to_text(value) : to_repr(value), spec);
  }
  const bool is_number = value.is_number() || value.kind() == Kind::kBigInt;
  if (type == 'c' && value.is_string()) {
    if (characters(value.as_string()).size() != 1)
      return broken_format("%c: found a longer string");
    spec.precision.reset();
    spec.align = spec.align == '<' ? '<' : '>';
    return text_field(value.as_string(), spec);
  }
  if (!is_number) {
    return broken_format(std::string("%") + type + ": found " + value.kind_name() +
                         "; accepted: a number");
  }
  if (is_real_type(type)) return real_field(value.as_float(), spec);
  if (std::string_view("diuxXoc").find(type) == std::string_view::npos) {
    return broken_format(std::string("found conversion %") + type);
  }
  Value whole = value;
  if (value.kind() == Kind::kFloat) {
    const std::optional<Value> made =
        type == 'd' || type == 'i' || type == 'u' ? integer_of(value.as_float()) : std::nullopt;
    if (!made)
      return broken_format(std::string("%") + type + ": found a number that is no integer");
    whole = *made;
  }
  if (type == 'i' || type == 'u') spec.type = 'd';
  if (type == 'c') spec.align = spec.align == '<' ? '<' : '>';
  spec.precision.reset();
  return integer_field(whole, spec);
}

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
  // Formats one field after its "{"; removes it from `text`, including "}".
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

  // Resolves "0", "name" or "", each followed by .attributes and [items].
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
  const List single(1, values);
  const List& given = values.is_tuple() ? values.as_list() : single;
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
