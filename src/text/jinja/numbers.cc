#include "text/jinja/numbers.h"

#include <array>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <string>
#include <vector>

#include "text/jinja/strings.h"

namespace forerun::text::jinja {

std::optional<Value> integer_of_digits(std::string_view digits, unsigned base, bool negative) {
  // Little-endian, base 1e9; digits past this many would take time in their square.
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
    // Without a base "012" is refused, "00" is not.
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
  // Past what a double holds: infinite or zero, which strtod tells apart.
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
