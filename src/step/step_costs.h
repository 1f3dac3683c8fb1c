// A model of Step durations: seconds by role and load. No other part of the engine estimates time:
// the scheduler composes Steps by it, the planner and the strategies choose by it, and simulated
// and emulated machines run by it. Start-up measurements or published tables fill it, and the
// durations of Steps while serving correct it.
//
// A role's seconds are
//   (curve(rows, kv_tokens) + slopes * load) * correction(rows) * common:
// - the curve goes through the entries. At one KV load it is linear in rows between entries and
//   constant below the smallest. Above the largest it continues with the slope of the last doubling
//   of rows, but never falls; where there is only one entry, each row adds 4% of it. Between two KV
//   loads it is linear in the load, and constant beyond the last.
// - slopes add the time that grows linearly with the load, if it has been measured separately.
// - the corrections start at 1 and follow observe(): `common` is a change of the whole machine, for
//   both roles at all rows; correction(rows) is the role's own, for Steps of about as many rows.
//   The target has separate corrections for Steps through a view (StepLoad::through_view), so that
//   its other Steps keep their predictions while only a view runs.
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
  // Numbers of rows that have a correction. Both sides of 8 and 16 are among them, since GPUs need
  // another pass and CPUs another tile beyond those.
  static constexpr std::array<int32_t, 16> kKnots = {1,  2,  4,  8,  9,  12,  16,  17,
                                                     24, 32, 48, 64, 96, 128, 256, 512};

  struct Slopes {
    double per_kv_token = 0.0;  // seconds
    double per_attended_token = 0.0;
    double per_sequence = 0.0;  // seconds per sequence beyond the first
  };

  // The pipeline of a target that is cut into stages.
  struct Stages {
    int32_t count = 1;              // equal stages, which share a Step's seconds
    double link_seconds = 0.0;      // latency: seconds of a Step on a link without its rows
    double link_row_seconds = 0.0;  // seconds per row, during which the link is busy
  };

  // Adds one measured time. Entries with the same rows and KV load count by their median. Ignores
  // the time if rows < 1 or if seconds are negative or not finite. `seconds` must not include the
  // part that the role's slopes add.
  void add(Role role, const StepLoad& load, double seconds);
  // No slope may be negative.
  void set_slopes(Role role, const Slopes& slopes) { of(role).slopes = slopes; }
  // Sets the target's stages: table() then counts their links and says when the next Step may
  // follow. seconds() does not change.
  void set_stages(const Stages& stages) { stages_ = stages; }
  // One added entry: the median for its pair of rows and KV load. Lists of entries are in ascending
  // order.
  struct Entry {
    int32_t rows = 0;
    int64_t kv_tokens = 0;
    double seconds = 0.0;
  };
  std::vector<Entry> entries(Role role) const;
  const Slopes& slopes(Role role) const { return of(role).slopes; }

  // Returns whether the role has an entry.
  bool has(Role role) const { return !of(role).curves.empty(); }
  // Needs has(role).
  double seconds(Role role, const StepLoad& load) const;

  // Corrects the model by the duration of one Step while serving. An observation moves a correction
  // by at most 2.5%, so a preempted Step that took ten times as long does no harm. A change by more
  // than a quarter that lasts for eight Steps of a role, two exceptions allowed, is followed at
  // once (another process has started or ended, or ran during the start-up measurements). Half of
  // it goes to `common`, since a change for one model is mostly a change for both. Does nothing if
  // the role has no entries.
  void observe(Role role, const StepLoad& load, double seconds);

  // Returns the table for strategies in a batch of `sequences` that decode, including the
  // strategy's own, with `context` tokens each. Its times never fall as rows grow. It is zero for a
  // role without entries.
  CostTable table(int32_t sequences = 1, int64_t context = 0) const;

 private:
  // The last observed durations of a role, relative to the expected ones.
  struct Recent {
    static constexpr size_t kSize = 8;
    std::array<double, kSize> ratios{};
    size_t count = 0;
  };
  using Corrections = std::array<double, kKnots.size()>;
  struct RoleCosts {
    RoleCosts() {
      whole.fill(1.0);
      through_view.fill(1.0);
    }
    std::map<int64_t, std::map<int32_t, std::vector<double>>> entries;  // by load, rows; sorted
    std::map<int64_t, std::map<int32_t, double>> curves;                // their medians
    Slopes slopes;
    Corrections whole, through_view;
    Recent recent;
  };

  RoleCosts& of(Role role) { return roles_[static_cast<size_t>(role)]; }
  const RoleCosts& of(Role role) const { return roles_[static_cast<size_t>(role)]; }
  // Returns whether Steps of this kind have corrections of their own. A draft model with a window
  // needs none: it has Steps of one kind only.
  static bool is_apart(Role role, const StepLoad& load) {
    return role == Role::kTarget && load.through_view;
  }
  static double uncorrected(const RoleCosts& costs, const StepLoad& load);
  static double correction_at(const Corrections& correction, int32_t rows);
  // Returns the factor by which the role's durations have changed for good, or 1 if there is no
  // such change.
  static double lasting_change(Recent& recent, double ratio);

  std::array<RoleCosts, kNumRoles> roles_;
  double common_ = 1.0;
  Stages stages_;
};

}  // namespace forerun
