#include "runner/summary.h"

#include <algorithm>
#include <limits>

#include "runner/ratio.h"

namespace forerun::bench {
namespace {

// Returns the median; that of an even number of values is the mean of the middle two.
double median(std::vector<double> values) {
  if (values.empty()) return 0.0;
  std::sort(values.begin(), values.end());
  const size_t half = values.size() / 2;
  return values.size() % 2 != 0 ? values[half] : (values[half - 1] + values[half]) / 2;
}

}  // namespace

RunnerRow summarize(const std::vector<RunnerSample>& samples,
                    const std::vector<RunnerSample>& baseline) {
  RunnerRow row;
  row.ratio_worst = std::numeric_limits<double>::infinity();
  std::vector<double> first_ms;
  double seconds = 0, baseline_seconds = 0, target_seconds = 0, draft_seconds = 0;
  double tokens = 0, steps = 0, draft_steps = 0, drafted = 0, accepted = 0;
  for (size_t idx = 0; idx < samples.size(); ++idx) {
    const RequestStats& stats = samples[idx].stats;
    first_ms.push_back(1000.0 * stats.time_to_first_token_s);
    drafted += static_cast<double>(stats.drafted_tokens);
    accepted += static_cast<double>(stats.accepted_tokens);
    row.identical += samples[idx].tokens == baseline[idx].tokens ? 1 : 0;
    if (stats.decode_s <= 0) continue;  // no token after the first
    tokens += stats.output_tokens - 1;
    seconds += stats.decode_s;
    steps += static_cast<double>(stats.target_steps);
    draft_steps += static_cast<double>(stats.draft_steps);
    target_seconds += stats.target_step_s * static_cast<double>(stats.target_steps);
    draft_seconds += stats.draft_step_s * static_cast<double>(stats.draft_steps);
    baseline_seconds += baseline[idx].stats.decode_s;
    row.ratio_worst = std::min(row.ratio_worst, baseline[idx].stats.decode_s / stats.decode_s);
  }
  row.prompts = static_cast<int>(samples.size());
  row.strategy = samples.front().stats.strategy;
  row.tokens_per_s = ratio(tokens, seconds);
  row.tokens_per_step = ratio(tokens, steps);
  row.step_ms = 1000.0 * ratio(seconds, steps);
  row.target_ms = 1000.0 * ratio(target_seconds, steps);
  row.draft_ms = 1000.0 * ratio(draft_seconds, draft_steps);
  row.draft_steps_per_step = ratio(draft_steps, steps);
  row.time_to_first_token_ms = median(first_ms);
  row.acceptance = ratio(accepted, drafted);
  row.ratio_to_baseline = ratio(baseline_seconds, seconds);
  if (seconds <= 0) row.ratio_worst = 0.0;
  return row;
}

}  // namespace forerun::bench
