// What Steps cost: seconds by role and load. The one model of time, which the scheduler composes
// Steps by, the planner and the strategies choose by, and simulated and emulated machines run by.
// It is filled from measurements at start-up or from published tables, and kept current by what
// Steps take while serving.
//
// A role's seconds are
//   (curve(rows, kv_tokens) + slopes * load) * correction(rows) * common:
// - the curve goes through entries. At one KV load it is linear in rows between entries; below the
//   smallest as the smallest; above the largest as over the last doubling of rows but never
//   falling, or 4% of the entry a row where there is only one. Between two KV loads it is linear in
//   the load; beyond the last as the last.
// - slopes add what grows linearly with the load, where that has been measured apart.
// - the corrections start at 1 and follow observe(): `common` is what has changed for both roles at
//   all rows, since the machine has; the other is the role's own, of Steps of about as many rows.
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
  // Rows at which a correction is kept. Both sides of 8 and 16: there passes of a GPU, and tiles of
  // a processor, become one more.
  static constexpr std::array<int32_t, 16> kKnots = {1,  2,  4,  8,  9,  12,  16,  17,
                                                     24, 32, 48, 64, 96, 128, 256, 512};

  struct Slopes {
    double per_kv_token = 0.0;  // seconds
    double per_attended_token = 0.0;
    double per_sequence = 0.0;  // beyond the first
  };

  // One measured time. Entries with the same rows and KV load count by their median. Ignored where
  // rows < 1 or seconds are negative or not finite. `seconds` are without what the role's slopes
  // stand for.
  void add(Role role, const StepLoad& load, double seconds);
  // None is negative.
  void set_slopes(Role role, const Slopes& slopes) { of(role).slopes = slopes; }
  // What has been added, each rows and KV load once, by its median; in their order.
  struct Entry {
    int32_t rows = 0;
    int64_t kv_tokens = 0;
    double seconds = 0.0;
  };
  std::vector<Entry> entries(Role role) const;
  const Slopes& slopes(Role role) const { return of(role).slopes; }

  // Whether there is an entry.
  bool has(Role role) const { return !of(role).curves.empty(); }
  // Only where has(role).
  double seconds(Role role, const StepLoad& load) const;

  // One Step while serving. An observation moves a correction by at most 2.5%, so a preempted Step
  // that took ten times as long does no harm. A change by more than a quarter that lasts for eight
  // Steps of a role, two exceptions allowed, is followed at once (a neighbour has come or gone, or
  // start-up was measured beside one); half of it as the machine's, since what changes for one
  // model mostly changes for both. Ignored without entries.
  void observe(Role role, const StepLoad& load, double seconds);

  // What strategies are told beside `sequences` that decode with `context` tokens each, themselves
  // included: more rows never cost less. Zero for a role without entries.
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
  // The factor by which a role has changed for good; 1: as far as one can tell, it has not.
  static double lasting_change(Recent& recent, double ratio);

  std::array<RoleCosts, kNumRoles> roles_;
  double common_ = 1.0;
};

}  // namespace forerun
