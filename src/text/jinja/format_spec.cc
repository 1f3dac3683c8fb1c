#include "text/jinja/format_spec.h"

#include <array>
#include <charconv>
#include <cmath>
#include <vector>

#include "base/status_macros.h"
#include "text/jinja/numbers.h"
#include "text/jinja/strings.h"
#include "text/utf8.h"

namespace forerun::text::jinja {
namespace {

bool is_align(char c) { return c == '<' || c == '>' || c == '^' || c == '='; }

// [[fill]align][sign][#][0][width][grouping][.precision][type]
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

// A separator between groups of `size` digits of the whole part, which `digits` begins with.
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

// Sign, prefix and digits, with what pads them where the specification puts it.
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
    // Without a type a number keeps a digit behind its point.
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

}  // namespace

Status broken_format(const std::string& message) {
  return Status(StatusCode::kInvalidArgument, "format: " + message);
}

Result<int64_t> take_number(std::string_view& text, int64_t most) {
  int64_t number = 0;
  while (!text.empty() && text[0] >= '0' && text[0] <= '9') {
    number = number * 10 + (text[0] - '0');
    if (number > most) return broken_format("found a size past " + std::to_string(most));
    text.remove_prefix(1);
  }
  return number;
}

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

}  // namespace forerun::text::jinja
