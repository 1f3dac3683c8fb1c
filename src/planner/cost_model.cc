#include "planner/cost_model.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <vector>

#include "step/row_seconds.h"

namespace forerun {
namespace {

// An observation counts at most this far from the curve, and this much of it is taken over.
constexpr double kMostSurprise = 0.5;
constexpr double kRate = 0.05;
// Where all but this many of the last observations are off by more than kLasting, that is no noise.
constexpr size_t kExceptions = 2;
constexpr double kLasting = 1.25;

bool usable(const CostPoint& point) {
  return point.rows >= 1 && std::isfinite(point.seconds) && point.seconds > 0.0;
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const size_t middle = values.size() / 2;
  return values.size() % 2 == 1 ? values[middle] : 0.5 * (values[middle - 1] + values[middle]);
}

}  // namespace

void CostModel::fit(std::span<const CostPoint> points) {
  for (Role role : {Role::kTarget, Role::kDraft}) {
    std::map<int32_t, std::vector<double>> by_rows;
    for (const CostPoint& point : points) {
      if (point.role == role && usable(point)) by_rows[point.rows].push_back(point.seconds);
    }
    if (by_rows.empty()) continue;
    std::map<int32_t, double> measured;
    for (const auto& [rows, seconds] : by_rows) measured[rows] = median(seconds);
    Curve& curve = curves_[static_cast<size_t>(role)];
    for (size_t knot = 0; knot < kKnots.size(); ++knot) {
      curve[knot] = seconds_at_rows(measured, kKnots[knot]);
      if (knot > 0) curve[knot] = std::max(curve[knot], curve[knot - 1]);
    }
    fitted_[static_cast<size_t>(role)] = true;
  }
}

double CostModel::at(const Curve& curve, double rows) {
  size_t upper = 1;
  while (upper + 1 < kKnots.size() && static_cast<double>(kKnots[upper]) < rows) ++upper;
  const double low = kKnots[upper - 1];
  const double high = kKnots[upper];
  // Beyond the last knot the last segment goes on.
  return curve[upper - 1] + (curve[upper] - curve[upper - 1]) * (rows - low) / (high - low);
}

double CostModel::lasting_change(Role role, double ratio) {
  Recent& recent = recent_[static_cast<size_t>(role)];
  recent.ratios[recent.count++] = ratio;
  if (recent.count < recent.ratios.size()) return 1.0;
  recent.count = 0;
  std::array<double, Recent::kSize> sorted = recent.ratios;
  std::sort(sorted.begin(), sorted.end());
  const double low = sorted[kExceptions];
  const double high = sorted[sorted.size() - 1 - kExceptions];
  if (low > kLasting) return low;
  if (high < 1.0 / kLasting) return high;
  return 1.0;
}

void CostModel::observe(const CostPoint& point) {
  if (!usable(point) || !fitted(point.role)) return;
  Curve& curve = curves_[static_cast<size_t>(point.role)];
  const double rows = point.rows;
  const double ratio = point.seconds / at(curve, rows);
  if (const double change = lasting_change(point.role, ratio); change != 1.0) {
    for (Curve& each : curves_) {
      const double factor = &each == &curve ? change : std::sqrt(change);
      for (double& seconds : each) seconds *= factor;
    }
    return;
  }
  const double step = kRate * std::clamp(ratio - 1.0, -kMostSurprise, kMostSurprise);
  for (size_t knot = 0; knot < kKnots.size(); ++knot) {
    // The nearer in rows, the more the knot learns; far ones still follow a machine that has become
    // slower as a whole.
    const double distance = std::abs(std::log2(rows / kKnots[knot]));
    curve[knot] *= 1.0 + step / (1.0 + distance);
  }
  for (size_t knot = 1; knot < kKnots.size(); ++knot) {
    curve[knot] = std::max(curve[knot], curve[knot - 1]);
  }
  // What changes for one model mostly changes for both (a neighbour on the machine, its clock). A
  // role that is not run would otherwise keep what a bad moment told of it.
  for (size_t role = 0; role < curves_.size(); ++role) {
    if (role == static_cast<size_t>(point.role)) continue;
    for (double& seconds : curves_[role]) seconds *= 1.0 + step / 2.0;
  }
}

CostTable CostModel::table() const {
  CostTable table;
  for (size_t role = 0; role < curves_.size(); ++role) {
    if (!fitted_[role]) continue;
    for (int32_t rows = 1; rows <= CostTable::kMaxRows; ++rows) {
      table.seconds[role][static_cast<size_t>(rows)] = static_cast<float>(at(curves_[role], rows));
    }
  }
  return table;
}

}  // namespace forerun
