// Python's string operations over UTF-8, and its conversion of texts to numbers.
#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstdlib>

#include "text/jinja/value.h"
#include "text/unicode.h"
#include "text/unicode_case.h"
#include "text/utf8.h"

namespace forerun::text::jinja {
namespace {

// Python's str.isspace adds the four information separators.
bool is_python_space(char32_t c) { return is_white_space(c) || (c >= 0x1c && c <= 0x1f); }

bool in_set(std::string_view character, char32_t value, const std::optional<std::string>& chars) {
  return chars ? chars->find(character) != std::string::npos : is_python_space(value);
}

std::vector<std::string> split_at_space(std::string_view text, int64_t count, bool from_right) {
  std::vector<std::string> out;
  text = stripped(text, std::nullopt, true, true);
  while (!text.empty()) {
    if (count == 0) {
      out.emplace_back(text);
      break;
    }
    if (count > 0) --count;
    size_t cut = from_right ? text.size() : 0;
    while (from_right ? cut > 0 : cut < text.size()) {
      const CodePoint point =
          from_right ? last_code_point(text.substr(0, cut)) : first_code_point(text.substr(cut));
      if (is_python_space(point.value)) break;
      cut = from_right ? cut - point.len_bytes : cut + point.len_bytes;
    }
    if (from_right) {
      out.emplace_back(text.substr(cut));
      text = stripped(text.substr(0, cut), std::nullopt, false, true);
    } else {
      out.emplace_back(text.substr(0, cut));
      text = stripped(text.substr(cut), std::nullopt, true, false);
    }
  }
  if (from_right) std::reverse(out.begin(), out.end());
  return out;
}

}  // namespace

std::vector<std::string_view> characters(std::string_view text) {
  std::vector<std::string_view> out;
  while (!text.empty()) {
    const uint32_t len = first_code_point(text).len_bytes;
    out.push_back(text.substr(0, len));
    text.remove_prefix(len);
  }
  return out;
}

std::string_view stripped(std::string_view text, const std::optional<std::string>& chars, bool left,
                          bool right) {
  while (left && !text.empty()) {
    const CodePoint point = first_code_point(text);
    if (!in_set(text.substr(0, point.len_bytes), point.value, chars)) break;
    text.remove_prefix(point.len_bytes);
  }
  while (right && !text.empty()) {
    const CodePoint point = last_code_point(text);
    if (!in_set(text.substr(text.size() - point.len_bytes), point.value, chars)) break;
    text.remove_suffix(point.len_bytes);
  }
  return text;
}

std::string upper(std::string_view text) { return python_upper(text); }
std::string lower(std::string_view text) { return python_lower(text); }
std::string capitalized(std::string_view text) { return python_capitalize(text); }
std::string titled(std::string_view text) { return python_title(text); }

std::string titled_words(std::string_view text) {
  // Changes words, and the texts between them, one by one.
  const auto is_between = [](std::string_view character) {
    const char32_t value = first_code_point(character).value;
    return is_python_space(value) ||
           (value < 0x80 && std::string_view("-({[<").find(character) != std::string::npos);
  };
  std::string out;
  while (!text.empty()) {
    const uint32_t first = first_code_point(text).len_bytes;
    const bool between = is_between(text.substr(0, first));
    size_t end = first;
    while (end < text.size()) {
      const uint32_t len = first_code_point(text.substr(end)).len_bytes;
      if (is_between(text.substr(end, len)) != between) break;
      end += len;
    }
    out += upper(text.substr(0, first)) + lower(text.substr(first, end - first));
    text.remove_prefix(end);
  }
  return out;
}

std::string padded(std::string_view text, int64_t width, std::string_view fill, Align align) {
  const int64_t missing =
      std::min(width, kMaxWidth) - static_cast<int64_t>(count_code_points(text));
  if (missing <= 0) return std::string(text);
  const int64_t left = align == Align::kLeft ? 0 : align == Align::kRight ? missing : missing / 2;
  std::string out;
  for (int64_t i = 0; i < left; ++i) out += fill;
  out += text;
  for (int64_t i = left; i < missing; ++i) out += fill;
  return out;
}

std::string centered(std::string_view text, int64_t width, std::string_view fill) {
  const int64_t missing =
      std::min(width, kMaxWidth) - static_cast<int64_t>(count_code_points(text));
  if ((missing & width & 1) == 0 || missing <= 0) return padded(text, width, fill, Align::kCenter);
  return std::string(fill) + padded(text, width - 1, fill, Align::kCenter);
}

std::string replaced(std::string_view text, std::string_view pattern, std::string_view with,
                     int64_t count) {
  std::string out;
  if (pattern.empty()) {
    for (const std::string_view character : characters(text)) {
      if (count != 0) out.append(with);
      if (count > 0) --count;
      out.append(character);
    }
    if (count != 0) out.append(with);
    return out;
  }
  size_t from = 0;
  for (size_t found = text.find(pattern); found != std::string_view::npos && count != 0;
       found = text.find(pattern, from)) {
    out.append(text, from, found - from);
    out.append(with);
    from = found + pattern.size();
    if (count > 0) --count;
  }
  out.append(text, from);
  return out;
}

std::vector<std::string> split(std::string_view text, const std::optional<std::string>& separator,
                               int64_t count, bool from_right) {
  if (!separator) return split_at_space(text, count, from_right);
  std::vector<std::string> out;
  while (count != 0) {
    const size_t found = from_right ? text.rfind(*separator) : text.find(*separator);
    if (found == std::string_view::npos) break;
    const std::string_view behind = text.substr(found + separator->size());
    out.emplace_back(from_right ? behind : text.substr(0, found));
    text = from_right ? text.substr(0, found) : behind;
    if (count > 0) --count;
  }
  out.emplace_back(text);
  if (from_right) std::reverse(out.begin(), out.end());
  return out;
}

std::optional<Value> integer_of_digits(std::string_view digits, unsigned base, bool negative) {
  // Little-endian, base 1e9; the time is quadratic in the number of digits.
  constexpr size_t kMaxDigits = 4300;  // Python's own limit
  constexpr uint64_t kLimb = 1'000'000'000;
  if (digits.empty() || digits.size() > kMaxDigits) return std::nullopt;
  std::vector<uint64_t> limbs(1, 0);
  for (const char c : digits) {
    const bool is_letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
    if (!is_letter && (c < '0' || c > '9')) return std::nullopt;
    uint64_t carry = static_cast<uint64_t>(is_letter ? (c | 0x20) - 'a' + 10 : c - '0');
    if (carry >= base) return std::nullopt;
    for (uint64_t& limb : limbs) {
      carry += limb * base;
      limb = carry % kLimb;
      carry /= kLimb;
    }
    if (carry != 0) limbs.push_back(carry);
  }
  std::string decimal = negative ? "-" : "";
  decimal += std::to_string(limbs.back());
  for (size_t i = limbs.size() - 1; i-- > 0;) {
    const std::string part = std::to_string(limbs[i]);
    decimal.append(9 - part.size(), '0').append(part);
  }
  int64_t number = 0;
  const auto end = std::from_chars(decimal.data(), decimal.data() + decimal.size(), number);
  if (end.ec == std::errc()) return Value::integer(number);
  return Value::big_integer(std::move(decimal));
}

std::optional<Value> parsed_integer(std::string_view text, int64_t base) {
  text = stripped(text, std::nullopt, true, true);
  const bool negative = text.starts_with('-');
  if (negative || text.starts_with('+')) text.remove_prefix(1);
  const auto prefix_base = [&]() -> int64_t {
    if (text.size() < 2 || text[0] != '0') return 0;
    const char letter = static_cast<char>(text[1] | 0x20);
    return letter == 'x' ? 16 : letter == 'o' ? 8 : letter == 'b' ? 2 : 0;
  }();
  bool after_prefix = false;
  if (prefix_base != 0 && (base == 0 || base == prefix_base)) {
    text.remove_prefix(2);
    base = prefix_base;
    after_prefix = true;
  } else if (base == 0) {
    // Without a base "012" is refused, "00" is accepted.
    if (text.starts_with('0') && text.find_first_not_of("0_") != std::string_view::npos) {
      return std::nullopt;
    }
    base = 10;
  }
  std::string digits;
  bool after_digit = after_prefix;
  for (const char c : text) {
    if (c == '_' && !after_digit) return std::nullopt;
    after_digit = c != '_';
    if (after_digit) digits.push_back(c);
  }
  if (!after_digit) return std::nullopt;
  return integer_of_digits(digits, static_cast<unsigned>(base), negative);
}

std::optional<double> parsed_real(std::string_view text) {
  text = stripped(text, std::nullopt, true, true);
  if (text.starts_with('+')) {
    text.remove_prefix(1);
    if (text.starts_with('-')) return std::nullopt;
  }
  std::string digits;
  bool after_digit = false;
  for (const char c : text) {
    if (c == '_' && !after_digit) return std::nullopt;
    after_digit = c >= '0' && c <= '9';
    if (c != '_') digits.push_back(c);
  }
  if (text.ends_with('_') || digits.find('(') != std::string::npos) return std::nullopt;
  double number = 0;
  const char* last = digits.data() + digits.size();
  const auto end = std::from_chars(digits.data(), last, number);
  if (end.ptr != last || digits.empty()) return std::nullopt;
  if (end.ec == std::errc()) return number;
  // Beyond the range of a double: infinite or zero, which strtod distinguishes.
  return std::strtod(digits.c_str(), nullptr);
}

std::optional<Value> integer_of(double number) {
  if (!std::isfinite(number)) return std::nullopt;
  std::array<char, 400> buffer;
  const auto end = std::to_chars(buffer.data(), buffer.data() + buffer.size(),
                                 std::trunc(std::fabs(number)), std::chars_format::fixed, 0);
  return integer_of_digits({buffer.data(), static_cast<size_t>(end.ptr - buffer.data())}, 10,
                           number < 0);
}

}  // namespace forerun::text::jinja
