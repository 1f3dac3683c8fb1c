// The part of a product of cases that a test runs.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdlib>

namespace forerun {

// Returns the environment variable FORERUN_TEST_PART as a number: 4 asks for a fourth of each
// product. Returns 1, which asks for the whole, if it is not set.
inline size_t test_part() {
  const char* const part = std::getenv("FORERUN_TEST_PART");
  return part == nullptr ? 1 : static_cast<size_t>(std::max(std::atoi(part), 1));
}

}  // namespace forerun
