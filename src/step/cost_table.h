// The durations of Steps as strategies know them.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "step/types.h"

namespace forerun {

// A Step that lasts at most this many times as long as another counts as little longer: its
// additional rows are taken even for guesses whose probability is not known.
inline constexpr float kNearlyFree = 1.15f;

// Where a policy may take guesses from.
struct GuessSources {
  bool text = true;    // the text so far
  bool drafts = true;  // Steps of the draft

  bool any() const { return text || drafts; }
  bool operator==(const GuessSources&) const = default;
};

// Seconds of a Step, by role and by the number of rows that every sequence of the present batch
// gives to it (with one sequence: rows of the Step). What a further row costs a request is the
// difference between two entries, relative to the first: in a batch of 64 sequences the fourth row
// of each makes 4 x 64 rows, and is no longer nearly free. Made by StepCosts::table().
struct CostTable {
  static constexpr int32_t kMaxRows = 128;
  // seconds[role][rows a sequence], rows in [1, kMaxRows], the host's work for the Step included;
  // index 0 stays zero. All zero: nothing has been measured.
  std::array<std::array<float, kMaxRows + 1>, kNumRoles> seconds{};
  // Where the target is cut into stages, by rows: seconds after which its first stage takes the
  // next Step, and after which the slowest stage or link does. All zero: it takes the next one
  // after `seconds`.
  std::array<float, kMaxRows + 1> entry{};
  std::array<float, kMaxRows + 1> interval{};
  int32_t sequences = 1;  // sequences that decode, this request's included
  // The least seconds that a further row of the target's Step costs, at whichever number of rows
  // makes it cheapest; 0: as the entries say. Policies offer rows that are worth at least this
  // (WorkRow::chance).
  float min_row = 0.0f;
  // The draft's Steps hold up the batch, and run only where all requests that would draft gain
  // enough together (WorkItem::gain).
  bool drafts_together = false;
  // Draft Steps have not paid recently: policies offer none.
  bool drafts_rest = false;
  // Policies that size their trees by costs take guesses from these sources only. The engine
  // narrows them where wall time says that others do not pay (engine/loop/auto_strategy.h).
  GuessSources sources;
  // Whether what a request expects of its rounds informs the engine's choice for all
  // (SharedAcceptance): not that of a request by a plan of its own.
  bool informs = true;
  // What a draft Step that no other request shares costs, as a multiple of the draft's entry for
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
