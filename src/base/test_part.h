// How much of a product of cases a test runs.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdlib>

namespace forerun {

// The number that the environment variable FORERUN_TEST_PART holds: 4 asks for a fourth of each
// product. 1, the whole, where it is not set.
inline size_t test_part() {
  const char* const part = std::getenv("FORERUN_TEST_PART");
  return part == nullptr ? 1 : static_cast<size_t>(std::max(std::atoi(part), 1));
}

}  // namespace forerun
