#include "exec/emulated/step_profile.h"

#include <algorithm>
#include <iterator>

#include "step/row_seconds.h"

namespace forerun {

StepLoad load_of(const Step& step) {
  StepLoad load;
  load.rows = static_cast<int32_t>(step.rows.size());
  // The rows of a sequence follow each other.
  int32_t sequence_idx = -1;
  int32_t context_tokens = 0;
  for (const StepRow& row : step.rows) {
    if (row.sequence_idx != sequence_idx) {
      load.kv_tokens += context_tokens;
      context_tokens = 0;
      sequence_idx = row.sequence_idx;
    }
    context_tokens = std::max(context_tokens, row.position + 1);
  }
  load.kv_tokens += context_tokens;
  return load;
}

void StepTimes::add(const StepLoad& load, double seconds) {
  std::vector<double>& values = entries_[load.kv_tokens][load.rows];
  values.insert(std::upper_bound(values.begin(), values.end(), seconds), seconds);
  const size_t middle = values.size() / 2;
  curves_[load.kv_tokens][load.rows] =
      values.size() % 2 == 1 ? values[middle] : 0.5 * (values[middle - 1] + values[middle]);
}

double StepTimes::seconds(const StepLoad& load) const {
  const auto above = curves_.lower_bound(load.kv_tokens);
  if (above == curves_.end()) return seconds_at_rows(std::prev(above)->second, load.rows);
  const double high = seconds_at_rows(above->second, load.rows);
  if (above == curves_.begin() || above->first == load.kv_tokens) return high;
  const auto below = std::prev(above);
  const double low = seconds_at_rows(below->second, load.rows);
  const double share = static_cast<double>(load.kv_tokens - below->first) /
                       static_cast<double>(above->first - below->first);
  return low + share * (high - low);
}

CostTable StepProfile::cost_table(int32_t context_tokens) const {
  CostTable table;
  for (const Role role : {Role::kTarget, Role::kDraft}) {
    if (!has(role)) continue;
    for (int32_t rows = 1; rows <= CostTable::kMaxRows; ++rows) {
      table.seconds[static_cast<size_t>(role)][static_cast<size_t>(rows)] =
          static_cast<float>(seconds(role, {rows, context_tokens}));
    }
  }
  return table;
}

}  // namespace forerun
