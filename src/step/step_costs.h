// What Steps cost: seconds by role and load. This is the only model of time: the scheduler composes
// Steps by it, planner and strategies choose by it, and simulated and emulated machines run by it.
// It is filled from measurements at start-up or from published tables, and corrected by the
// durations of Steps while serving.
//
// A role's seconds are
//   (curve(rows, kv_tokens) + slopes * load) * correction(rows) * common:
// - the curve goes through the entries. At one KV load it is linear in rows between entries and
//   constant below the smallest. Above the largest it continues with the slope of the last doubling
//   of rows, but never falls; where there is only one entry, each row adds 4% of it. Between two KV
//   loads it is linear in the load, and constant beyond the last.
// - slopes add what grows linearly with the load, where that has been measured separately.
// - the corrections start at 1 and follow observe(): `common` is a change of the whole machine, for
//   both roles at all rows; correction(rows) is the role's own, for Steps of about as many rows.
//
// Plain data: any number of readers, or one writer.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <vector>

#include "step/cost_table.h"
#include "step/step_load.h"
#include "step/types.h"

namespace forerun {

class StepCosts {
 public:
  // Rows at which a correction is kept. Both sides of 8 and 16 are among them, since GPUs need
  // another pass and processors another tile beyond those.
  static constexpr std::array<int32_t, 16> kKnots = {1,  2,  4,  8,  9,  12,  16,  17,
                                                     24, 32, 48, 64, 96, 128, 256, 512};

  struct Slopes {
    double per_kv_token = 0.0;  // seconds
    double per_attended_token = 0.0;
    double per_sequence = 0.0;  // seconds of each sequence beyond the first
  };

  // What the target's Steps pass through beside their seconds.
  struct Stages {
    int32_t count = 1;              // equal stages, which share a Step's seconds
    double link_seconds = 0.0;      // time of a Step on a link without its rows: the latency
    double link_row_seconds = 0.0;  // time of each of its rows, during which the link is taken
  };

  // Adds one measured time. Entries with the same rows and KV load count by their median. Ignored
  // where rows < 1 or seconds are negative or not finite. `seconds` must not include what the
  // role's slopes add.
  void add(Role role, const StepLoad& load, double seconds);
  // No slope may be negative.
  void set_slopes(Role role, const Slopes& slopes) { of(role).slopes = slopes; }
  // The target's Steps pass through stages: table() counts their links and says when the next
  // Step may follow. seconds() stays as it is.
  void set_stages(const Stages& stages) { stages_ = stages; }
  // What has been added: the median for each pair of rows and KV load, in ascending order.
  struct Entry {
    int32_t rows = 0;
    int64_t kv_tokens = 0;
    double seconds = 0.0;
  };
  std::vector<Entry> entries(Role role) const;
  const Slopes& slopes(Role role) const { return of(role).slopes; }

  // Whether the role has an entry.
  bool has(Role role) const { return !of(role).curves.empty(); }
  // Must be called only where has(role).
  double seconds(Role role, const StepLoad& load) const;

  // Takes the duration of one Step while serving. An observation moves a correction by at most
  // 2.5%, so a preempted Step that took ten times as long does no harm. A change by more than a
  // quarter that lasts for eight Steps of a role, two exceptions allowed, is followed at once
  // (another process has come or gone, or start-up was measured beside one). Half of it goes to
  // `common`, since what changes for one model mostly changes for both. Ignored without entries.
  void observe(Role role, const StepLoad& load, double seconds);

  // The table for strategies in a batch of `sequences` that decode, the strategy's own included,
  // with `context` tokens each. More rows never cost less. Zero for a role without entries.
  CostTable table(int32_t sequences = 1, int64_t context = 0) const;

 private:
  // The last observations of a role, relative to what was expected.
  struct Recent {
    static constexpr size_t kSize = 8;
    std::array<double, kSize> ratios{};
    size_t count = 0;
  };
  struct RoleCosts {
    RoleCosts() { correction.fill(1.0); }
    std::map<int64_t, std::map<int32_t, std::vector<double>>> entries;  // by load, rows; sorted
    std::map<int64_t, std::map<int32_t, double>> curves;                // their medians
    Slopes slopes;
    std::array<double, kKnots.size()> correction;
    Recent recent;
  };

  RoleCosts& of(Role role) { return roles_[static_cast<size_t>(role)]; }
  const RoleCosts& of(Role role) const { return roles_[static_cast<size_t>(role)]; }
  static double uncorrected(const RoleCosts& costs, const StepLoad& load);
  static double correction_at(const RoleCosts& costs, int32_t rows);
  // The factor of a lasting change of the role's durations; 1: none can be told.
  static double lasting_change(Recent& recent, double ratio);

  std::array<RoleCosts, kNumRoles> roles_;
  double common_ = 1.0;
  Stages stages_;
};

}  // namespace forerun
