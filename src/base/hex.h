// Formats numbers as hexadecimal text.
#pragma once

#include <array>
#include <cstdint>
#include <cstdio>
#include <string>

namespace forerun {

// Returns all 16 digits, in lower case.
inline std::string hex(uint64_t number) {
  std::array<char, 17> digits{};
  std::snprintf(digits.data(), digits.size(), "%016llx", static_cast<unsigned long long>(number));
  return digits.data();
}

}  // namespace forerun
