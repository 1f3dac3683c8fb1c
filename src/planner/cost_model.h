// What a Step costs by role and rows: fitted to a few measurements at start-up, then kept current
// by what Steps take while serving.
//
// Per role the model is a curve through knots at kKnots rows, linear in between and never falling:
// more rows cannot cost less. Pure; one thread at a time.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "step/cost_table.h"

namespace forerun {

struct CostPoint {
  Role role = Role::kTarget;
  int32_t rows = 1;  // of the Step, 1 or more
  double seconds = 0.0;
};

class CostModel {
 public:
  // Both sides of 8 and 16: there passes of a GPU, and tiles of a processor, become one more.
  static constexpr std::array<int32_t, 14> kKnots = {1,  2,  4,  8,  9,  12, 16,
                                                     17, 24, 32, 48, 64, 96, 128};

  // Fits every role that has points, replacing what was known of it. Repeated measurements of the
  // same rows count by their median. Between measured rows: linear; below the smallest: as the
  // smallest; above the largest: along the last two, or 4% of the first row a row if there is only
  // one. Points with rows < 1 or seconds that are not positive and finite are ignored.
  void fit(std::span<const CostPoint> points);
  // One Step while serving. An observation moves the curve by at most 2.5%, so a preempted Step
  // that took ten times as long does no harm. A change by more than a quarter that lasts for eight
  // Steps of a role, two exceptions allowed, is followed at once (a neighbour has come or gone, or
  // start-up was measured beside one). Ignored for a role that was never fitted.
  void observe(const CostPoint& point);

  bool fitted(Role role) const { return fitted_[static_cast<size_t>(role)]; }
  // Roles never fitted are all zero.
  CostTable table() const;

 private:
  using Curve = std::array<double, kKnots.size()>;

  static double at(const Curve& curve, double rows);

  // The last observations of a role, relative to what was expected.
  struct Recent {
    static constexpr size_t kSize = 8;
    std::array<double, kSize> ratios{};
    size_t count = 0;
  };
  // The factor by which a role has changed for good; 1: as far as one can tell, it has not.
  double lasting_change(Role role, double ratio);

  std::array<Curve, kNumRoles> curves_{};
  std::array<Recent, kNumRoles> recent_{};
  std::array<bool, kNumRoles> fitted_{};
};

}  // namespace forerun
