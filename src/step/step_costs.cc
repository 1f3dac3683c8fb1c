#include "step/step_costs.h"

#include <algorithm>
#include <cmath>
#include <iterator>

namespace forerun {
namespace {

// Clamps a deviation from the expected time to kMaxSurprise; corrections take over kRate of it.
constexpr double kMaxSurprise = 0.5;
constexpr double kRate = 0.05;
// The share of a deviation that corrects `common`.
constexpr double kCommonShare = 0.25;
// The share of its deviation from the common correction that a knot loses with every observation at
// other knots, so that a knot without recent observations follows the common correction. Observed
// knots lose nothing: otherwise the common correction would absorb what they have learnt.
constexpr double kForgets = 1e-3;
// A change is lasting if all but this many of the last observations deviate by more than kLasting.
constexpr size_t kExceptions = 2;
constexpr double kLasting = 1.25;
// The time of a further row, relative to the entry's time, if there is only one entry.
constexpr double kAssumedRowShare = 0.04;

double seconds_at_rows(const std::map<int32_t, double>& measured, int32_t rows) {
  const auto above = measured.lower_bound(rows);
  if (above != measured.end() && (above->first == rows || above == measured.begin())) {
    return above->second;
  }
  const auto last = std::prev(measured.end());
  if (above == measured.end()) {
    double slope = kAssumedRowShare * measured.begin()->second;
    // Takes the slope over a doubling of rows: the cost may jump between neighbouring entries,
    // where a GPU needs another pass, and such a jump is not a slope.
    const auto half = measured.upper_bound(last->first / 2);
    const auto before = half == measured.begin() ? half : std::prev(half);
    if (before != last) {
      slope = std::max(0.0, (last->second - before->second) / (last->first - before->first));
    }
    return last->second + slope * (rows - last->first);
  }
  const auto below = std::prev(above);
  const double slope = (above->second - below->second) / (above->first - below->first);
  return below->second + slope * (rows - below->first);
}

bool is_time(double seconds) { return std::isfinite(seconds) && seconds >= 0.0; }

}  // namespace

StepLoad load_of(const Step& step) {
  StepLoad load{.rows = static_cast<int32_t>(step.rows.size()), .sequences = 0};
  // All rows of a sequence are adjacent.
  int32_t sequence_idx = -1;
  int32_t context_tokens = 0;
  for (const StepRow& row : step.rows) {
    if (row.sequence_idx != sequence_idx) {
      load.kv_tokens += context_tokens;
      context_tokens = 0;
      sequence_idx = row.sequence_idx;
      ++load.sequences;
    }
    context_tokens = std::max(context_tokens, row.visible);
    load.attended_tokens += row.visible;
    load.through_view |= row.visible <= row.position;
  }
  load.kv_tokens += context_tokens;
  return load;
}

void StepCosts::add(Role role, const StepLoad& load, double seconds) {
  if (load.rows < 1 || !is_time(seconds)) return;
  RoleCosts& costs = of(role);
  std::vector<double>& values = costs.entries[load.kv_tokens][load.rows];
  values.insert(std::upper_bound(values.begin(), values.end(), seconds), seconds);
  const size_t middle = values.size() / 2;
  costs.curves[load.kv_tokens][load.rows] =
      values.size() % 2 == 1 ? values[middle] : 0.5 * (values[middle - 1] + values[middle]);
}

double StepCosts::uncorrected(const RoleCosts& costs, const StepLoad& load) {
  const double sloped =
      costs.slopes.per_kv_token * static_cast<double>(load.kv_tokens) +
      costs.slopes.per_attended_token * static_cast<double>(load.attended_tokens) +
      costs.slopes.per_sequence * std::max(0, load.sequences - 1);
  const auto above = costs.curves.lower_bound(load.kv_tokens);
  if (above == costs.curves.end()) {
    return sloped + seconds_at_rows(std::prev(above)->second, load.rows);
  }
  const double high = seconds_at_rows(above->second, load.rows);
  if (above == costs.curves.begin() || above->first == load.kv_tokens) return sloped + high;
  const auto below = std::prev(above);
  const double low = seconds_at_rows(below->second, load.rows);
  const double share = static_cast<double>(load.kv_tokens - below->first) /
                       static_cast<double>(above->first - below->first);
  return sloped + low + share * (high - low);
}

std::vector<StepCosts::Entry> StepCosts::entries(Role role) const {
  std::vector<Entry> entries;
  for (const auto& [kv_tokens, curve] : of(role).curves) {
    for (const auto& [rows, seconds] : curve) entries.push_back({rows, kv_tokens, seconds});
  }
  return entries;
}

double StepCosts::correction_at(const Corrections& correction, int32_t rows) {
  const auto upper = std::lower_bound(kKnots.begin(), kKnots.end(), rows);
  if (upper == kKnots.end()) return correction.back();
  const auto index = static_cast<size_t>(upper - kKnots.begin());
  if (index == 0 || *upper == rows) return correction[index];
  const double share = static_cast<double>(rows - kKnots[index - 1]) /
                       static_cast<double>(kKnots[index] - kKnots[index - 1]);
  return correction[index - 1] + share * (correction[index] - correction[index - 1]);
}

double StepCosts::seconds(Role role, const StepLoad& load) const {
  const RoleCosts& costs = of(role);
  const Corrections& correction = is_apart(role, load) ? costs.through_view : costs.whole;
  return uncorrected(costs, load) * common_ * correction_at(correction, load.rows);
}

double StepCosts::lasting_change(Recent& recent, double ratio) {
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

void StepCosts::observe(Role role, const StepLoad& load, double seconds) {
  if (load.rows < 1 || !is_time(seconds) || !has(role)) return;
  RoleCosts& costs = of(role);
  const double expected = this->seconds(role, load);
  if (expected <= 0.0 || seconds <= 0.0) return;
  const double ratio = seconds / expected;
  if (const double change = lasting_change(costs.recent, ratio); change != 1.0) {
    const double half = std::sqrt(change);
    common_ *= half;
    for (Corrections* each : {&costs.whole, &costs.through_view}) {
      for (double& correction : *each) correction *= half;
    }
    return;
  }
  const double step = kRate * std::clamp(ratio - 1.0, -kMaxSurprise, kMaxSurprise);
  common_ *= 1.0 + kCommonShare * step;
  Corrections& observed = is_apart(role, load) ? costs.through_view : costs.whole;
  for (Corrections* each : {&costs.whole, &costs.through_view}) {
    for (size_t knot = 0; knot < kKnots.size(); ++knot) {
      // A knot learns a quarter of a deviation that is observed at twice or half as many rows.
      const double ratio_of_rows = static_cast<double>(load.rows) / kKnots[knot];
      const double near = std::min(ratio_of_rows, 1.0 / ratio_of_rows);
      const double nearness = each == &observed ? near * near : 0.0;
      const double learnt = (1.0 - kCommonShare) * nearness * step;
      double& correction = (*each)[knot];
      correction *= (1.0 + learnt) / (1.0 + kForgets * (1.0 - nearness) * (correction - 1.0));
    }
  }
}

CostTable StepCosts::table(int32_t sequences, int64_t context) const {
  CostTable table;
  table.sequences = sequences;
  for (const Role role : {Role::kTarget, Role::kDraft}) {
    if (!has(role)) continue;
    auto& row = table.seconds[static_cast<size_t>(role)];
    for (int32_t rows = 1; rows <= CostTable::kMaxRows; ++rows) {
      const auto index = static_cast<size_t>(rows);
      row[index] = std::max(row[index - 1],
                            static_cast<float>(seconds(role, even_load(sequences, rows, context))));
    }
  }
  if (stages_.count <= 1 || !has(Role::kTarget)) return table;
  auto& pass = table.seconds[static_cast<size_t>(Role::kTarget)];
  for (int32_t rows = 1; rows <= CostTable::kMaxRows; ++rows) {
    const auto index = static_cast<size_t>(rows);
    const double on_link = stages_.link_row_seconds * rows * std::max(1, sequences);
    table.entry[index] = pass[index] / static_cast<float>(stages_.count);
    table.interval[index] = std::max(table.entry[index], static_cast<float>(on_link));
    // The last stage's answer also passes a link.
    pass[index] +=
        static_cast<float>((stages_.count - 1) * on_link + stages_.count * stages_.link_seconds);
  }
  return table;
}

}  // namespace forerun
