// What strategies are told about the durations of Steps.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "step/types.h"

namespace forerun {

// A Step that lasts no longer than this times another is little longer: rows that make it so are
// taken even for guesses of which nothing is known but their order.
inline constexpr float kNearlyFree = 1.15f;

// Seconds of a Step to which every sequence of the present batch gives so many rows, by role: with
// one sequence, a Step of that many rows. What a further row costs a request beside the others is
// the difference between two entries, relative to the first one: where the batch is large, its
// fourth row is one of 4 x 64 and no longer nearly free. StepCosts::table() makes it.
struct CostTable {
  static constexpr int32_t kMaxRows = 128;
  // seconds[role][rows a sequence], rows in [1, kMaxRows], the host's work for the Step included;
  // index 0 stays zero. All zero: nothing has been measured.
  std::array<std::array<float, kMaxRows + 1>, kNumRoles> seconds{};
  int32_t sequences = 1;  // that decode, this request's among them
  // What a further row of the target's Step costs at least, in seconds, where the batch makes the
  // most of it; 0: as the entries say. Rows that are worth as much are offered (WorkRow::chance).
  float least_row = 0.0f;
  // The draft's Steps hold up a batch, and run where all who would draft gain enough together
  // (WorkItem::gain).
  bool drafts_together = false;
  // They have not paid of late: nothing is to be offered.
  bool drafts_rest = false;
  // How many times the draft's entry of one row a draft Step costs that no other request shares.
  float draft_alone = 1.0f;

  bool measured() const { return at(Role::kTarget, 1) > 0.0f; }
  float at(Role role, int32_t rows) const {
    if (rows <= 0) return 0.0f;
    const auto& row = seconds[static_cast<size_t>(role)];
    if (rows <= kMaxRows) return row[static_cast<size_t>(rows)];
    return row[kMaxRows] * static_cast<float>(rows) / static_cast<float>(kMaxRows);
  }
};

}  // namespace forerun
