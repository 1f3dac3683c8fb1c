#include "byte_size.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cmath>
#include <optional>
#include <string>

namespace forerun::app {
namespace {

// Returns the number of bytes of one `unit`, such as "GiB".
std::optional<double> bytes_of(std::string_view unit) {
  constexpr std::string_view kPrefixes = "kmgt";
  if (unit.empty() || unit == "b") return 1.0;
  const size_t power = kPrefixes.find(unit.front());
  if (power == kPrefixes.npos) return std::nullopt;
  unit.remove_prefix(1);
  const bool binary = unit.starts_with('i');
  if (binary) unit.remove_prefix(1);
  if (!unit.empty() && unit != "b") return std::nullopt;
  return std::pow(binary ? 1024.0 : 1000.0, static_cast<double>(power + 1));
}

}  // namespace

Result<int64_t> parse_byte_size(std::string_view text) {
  const Status wrong(StatusCode::kInvalidArgument,
                     "found '" + std::string(text) +
                         "'; accepted: sizes such as 512MB, 4GB or 1.5GiB, up to 8 exbibytes");
  double number = 0;
  const char* const end = text.data() + text.size();
  const auto [stopped, error] = std::from_chars(text.data(), end, number, std::chars_format::fixed);
  if (error != std::errc() || !std::isfinite(number) || number < 0) return wrong;
  std::string unit(stopped, end);
  unit.erase(0, std::min(unit.find_first_not_of(' '), unit.size()));
  std::transform(unit.begin(), unit.end(), unit.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  const std::optional<double> factor = bytes_of(unit);
  constexpr double kLimit = 9223372036854775808.0;  // 2^63
  if (!factor || number * *factor >= kLimit) return wrong;
  return static_cast<int64_t>(number * *factor);
}

}  // namespace forerun::app
