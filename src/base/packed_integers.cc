#include "base/packed_integers.h"

#include <array>

namespace forerun {
namespace {

constexpr std::string_view kDigits =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
constexpr int kDigitBits = 5;
constexpr int64_t kMore = 1 << kDigitBits;  // set in a digit if another one follows
constexpr int kMaxShift = 55;

// The value of each character as a digit; -1 if it is not a digit.
constexpr std::array<int8_t, 256> kValues = [] {
  std::array<int8_t, 256> values{};
  values.fill(-1);
  for (size_t digit = 0; digit < kDigits.size(); ++digit) {
    values[static_cast<uint8_t>(kDigits[digit])] = static_cast<int8_t>(digit);
  }
  return values;
}();

}  // namespace

void append_packed(std::string& packed, int64_t value) {
  for (; value >= kMore; value >>= kDigitBits) {
    packed += kDigits[static_cast<size_t>(kMore + value % kMore)];
  }
  packed += kDigits[static_cast<size_t>(value)];
}

std::optional<std::vector<int64_t>> unpack_integers(std::string_view packed, int64_t max) {
  std::vector<int64_t> values;
  int64_t value = 0;
  int shift = 0;
  for (const char c : packed) {
    const int64_t digit = kValues[static_cast<uint8_t>(c)];
    if (digit < 0 || shift > kMaxShift) return std::nullopt;
    value |= (digit % kMore) << shift;
    shift += kDigitBits;
    if (digit >= kMore) continue;
    if (value > max) return std::nullopt;
    values.push_back(value);
    value = 0;
    shift = 0;
  }
  if (shift != 0) return std::nullopt;
  return values;
}

}  // namespace forerun
