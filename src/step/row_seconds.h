// What a Step of any number of rows takes, from a few measured row counts.
#pragma once

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <map>

namespace forerun {

// `measured`: seconds by rows, at least one entry. Between entries: linear; below the smallest: as
// the smallest; above the largest: along the last two but never falling, or 4% of the entry a row
// where there is only one.
inline double seconds_at_rows(const std::map<int32_t, double>& measured, int32_t rows) {
  constexpr double kAssumedRowShare = 0.04;
  const auto above = measured.lower_bound(rows);
  if (above != measured.end() && (above->first == rows || above == measured.begin())) {
    return above->second;
  }
  const auto last = std::prev(measured.end());
  double slope = kAssumedRowShare * measured.begin()->second;
  if (above == measured.end()) {
    if (measured.size() > 1) {
      const auto before = std::prev(last);
      slope = std::max(0.0, (last->second - before->second) / (last->first - before->first));
    }
    return last->second + slope * (rows - last->first);
  }
  const auto below = std::prev(above);
  slope = (above->second - below->second) / (above->first - below->first);
  return below->second + slope * (rows - below->first);
}

}  // namespace forerun
