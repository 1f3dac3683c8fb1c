#include "grammar/decimal.h"

#include <algorithm>
#include <charconv>

namespace forerun::grammar {
namespace {

constexpr int kMaxExponent = 40;

// Returns the value of `digits`, at most `limit`.
int64_t bounded(const std::string& digits, int64_t limit) {
  int64_t value = 0;
  for (const char c : digits) {
    if (value > (limit - 9) / 10) return limit;
    value = value * 10 + (c - '0');
  }
  return std::min(value, limit);
}

int compare_magnitude(const Decimal& a, const Decimal& b) {
  if (a.whole.size() != b.whole.size()) return a.whole.size() < b.whole.size() ? -1 : 1;
  const int whole = a.whole.compare(b.whole);
  const int order = whole != 0 ? whole : a.fraction.compare(b.fraction);
  return order < 0 ? -1 : order > 0 ? 1 : 0;
}

}  // namespace

std::optional<Decimal> Decimal::parse(std::string_view text) {
  Decimal value;
  if (text.starts_with('-')) {
    value.negative = true;
    text.remove_prefix(1);
  }
  int exponent = 0;
  if (const size_t e = text.find_first_of("eE"); e != std::string_view::npos) {
    std::string_view digits = text.substr(e + 1);
    if (digits.starts_with('+')) digits.remove_prefix(1);
    const auto [end, error] =
        std::from_chars(digits.data(), digits.data() + digits.size(), exponent);
    if (error != std::errc() || end != digits.data() + digits.size()) return std::nullopt;
    if (exponent > kMaxExponent || exponent < -kMaxExponent) return std::nullopt;
    text = text.substr(0, e);
  }
  const size_t point = text.find('.');
  value.whole = text.substr(0, point);
  if (point != std::string_view::npos) value.fraction = text.substr(point + 1);
  const auto all_digits = [](const std::string& digits) {
    return std::all_of(digits.begin(), digits.end(), [](char c) { return c >= '0' && c <= '9'; });
  };
  if (value.whole.empty() || !all_digits(value.whole) || !all_digits(value.fraction)) {
    return std::nullopt;
  }
  for (; exponent > 0; --exponent) {
    value.whole += value.fraction.empty() ? '0' : value.fraction[0];
    if (!value.fraction.empty()) value.fraction.erase(0, 1);
  }
  for (; exponent < 0; ++exponent) {
    value.fraction.insert(value.fraction.begin(), value.whole.empty() ? '0' : value.whole.back());
    if (!value.whole.empty()) value.whole.pop_back();
  }
  value.whole.erase(0, std::min(value.whole.find_first_not_of('0'), value.whole.size()));
  if (value.whole.empty()) value.whole = "0";
  while (!value.fraction.empty() && value.fraction.back() == '0') value.fraction.pop_back();
  if (value.is_zero()) value.negative = false;
  return value;
}

int64_t Decimal::floor(int64_t limit) const {
  const int64_t magnitude = bounded(whole, limit);
  if (!negative) return magnitude;
  return std::max(-limit, -magnitude - (fraction.empty() ? 0 : 1));
}

int64_t Decimal::ceil(int64_t limit) const {
  const int64_t magnitude = bounded(whole, limit);
  if (negative) return -magnitude;
  return std::min(limit, magnitude + (fraction.empty() ? 0 : 1));
}

int compare(const Decimal& a, const Decimal& b) {
  if (a.negative != b.negative) return a.negative ? -1 : 1;
  const int order = compare_magnitude(a, b);
  return a.negative ? -order : order;
}

}  // namespace forerun::grammar
