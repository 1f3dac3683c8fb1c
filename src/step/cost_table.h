// Measured durations of Steps: data that executors publish, the planner fits and policies read.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "step/types.h"

namespace forerun {

// Seconds that a Step of a role takes at a number of rows, at the context the table was made for.
struct CostTable {
  static constexpr int32_t kMaxRows = 128;
  // seconds[role][rows], rows in [1, kMaxRows], the host's work for the Step included; index 0
  // stays zero. All zero: nothing has been measured.
  std::array<std::array<float, kMaxRows + 1>, kNumRoles> seconds{};

  bool measured() const { return at(Role::kTarget, 1) > 0.0f; }
  float at(Role role, int32_t rows) const {
    if (rows <= 0) return 0.0f;
    const auto& row = seconds[static_cast<size_t>(role)];
    if (rows <= kMaxRows) return row[static_cast<size_t>(rows)];
    return row[kMaxRows] * static_cast<float>(rows) / static_cast<float>(kMaxRows);
  }
};

}  // namespace forerun
