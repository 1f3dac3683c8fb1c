// A table of Step durations for strategies.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "step/types.h"

namespace forerun {

// A Step that lasts at most this many times as long as another counts as little longer. A policy
// takes its additional rows even for guesses of unknown probability.
inline constexpr float kNearlyFree = 1.15f;

// The sources that a policy may take guesses from.
struct GuessSources {
  bool text = true;    // tokens of the sequence so far
  bool drafts = true;  // Steps of the draft

  bool any() const { return text || drafts; }
  bool operator==(const GuessSources&) const = default;
};

// Seconds per Step, by role and by the number of rows that each sequence of the present batch adds
// to the Step. The difference between two entries, relative to the first, is the cost of a further
// row for a request: in a batch of 64 sequences the fourth row of each makes 4 x 64 rows, and is no
// longer nearly free. Made by StepCosts::table().
struct CostTable {
  static constexpr int32_t kMaxRows = 128;
  // seconds[role][rows per sequence], rows in [1, kMaxRows], including the host's work for the
  // Step. Index 0 stays zero. All entries are zero if nothing has been measured.
  std::array<std::array<float, kMaxRows + 1>, kNumRoles> seconds{};
  // For a target that is cut into stages, by rows: `entry` holds the seconds until the first stage
  // takes the next Step, `interval` those until the slowest stage or link does. All are zero if the
  // target takes the next Step after `seconds`.
  std::array<float, kMaxRows + 1> entry{};
  std::array<float, kMaxRows + 1> interval{};
  int32_t sequences = 1;  // sequences that decode, including this request's
  // Rows that Steps reserve for waiting prompts, if the target is cut into stages.
  int32_t prompt_rows = 0;
  // The lowest cost in seconds of a further row of the target's Step, over all numbers of rows; 0
  // if the entries apply. Policies offer only rows that are worth at least this (WorkRow::chance).
  float min_row = 0.0f;
  // The price of one request's decision whether to guess: the seconds by which it delays the Step,
  // times the number of sequences that wait. 0 if the delay does not matter.
  float decision = 0.0f;
  // True if the draft's Steps hold up the batch. They then run only if all requests that would
  // draft gain enough together (WorkItem::gain).
  bool drafts_together = false;
  // True if draft Steps have not paid off recently; policies then offer none.
  bool drafts_rest = false;
  // The sources of guesses for policies that size their trees by costs. The engine removes sources
  // that do not pay off in wall time (engine/loop/auto_strategy.h).
  GuessSources sources;
  // True if the acceptance that this request expects informs the engine's choice for all requests
  // (SharedAcceptance); false for a request with its own plan.
  bool informs = true;
  // The cost of a draft Step that serves this request alone, as a multiple of the draft's entry for
  // one row.
  float draft_alone = 1.0f;

  bool measured() const { return at(Role::kTarget, 1) > 0.0f; }
  float at(Role role, int32_t rows) const {
    if (rows <= 0) return 0.0f;
    const auto& row = seconds[static_cast<size_t>(role)];
    if (rows <= kMaxRows) return row[static_cast<size_t>(rows)];
    return row[kMaxRows] * static_cast<float>(rows) / static_cast<float>(kMaxRows);
  }
  float entry_at(int32_t rows) const { return of_stages(entry, rows); }
  float interval_at(int32_t rows) const { return of_stages(interval, rows); }

 private:
  float of_stages(const std::array<float, kMaxRows + 1>& seconds_of, int32_t rows) const {
    if (seconds_of[1] <= 0.0f || rows <= 0) return at(Role::kTarget, rows);
    return seconds_of[static_cast<size_t>(rows < kMaxRows ? rows : kMaxRows)];
  }
};

}  // namespace forerun
