// Decimal: the exact value of a JSON number, for bounds. Plain values.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace forerun::grammar {

struct Decimal {
  bool negative = false;  // never for zero
  std::string whole;      // digits without leading zeros; "0" if none
  std::string fraction;   // digits without trailing zeros

  // Parses `text`, a JSON number, with exponents within 40 places; returns nothing otherwise.
  static std::optional<Decimal> parse(std::string_view text);

  bool is_zero() const { return whole == "0" && fraction.empty(); }
  // Return the value rounded down or up to an integer, limited to plus or minus `limit`.
  int64_t floor(int64_t limit) const;
  int64_t ceil(int64_t limit) const;
};

// Returns -1, 0 or 1 for `a` below, equal to or above `b`.
int compare(const Decimal& a, const Decimal& b);

}  // namespace forerun::grammar
