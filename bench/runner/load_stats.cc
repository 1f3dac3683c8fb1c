#include "runner/load_stats.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <utility>

#include "runner/ratio.h"

namespace forerun::bench {
namespace {

// Returns the time before each Step but the first in which no Step runs.
std::vector<double> idle_us(const Trace& trace) {
  std::vector<std::pair<int64_t, int64_t>> steps;  // start, end
  for (const TraceStep& step : trace.steps) steps.emplace_back(step.start_ns, step.end_ns);
  std::sort(steps.begin(), steps.end());
  std::vector<double> idle;
  int64_t busy_until_ns = 0;
  for (const auto& [start_ns, end_ns] : steps) {
    if (start_ns != steps.front().first) {
      idle.push_back(1e-3 * static_cast<double>(std::max<int64_t>(start_ns - busy_until_ns, 0)));
    }
    busy_until_ns = std::max(busy_until_ns, end_ns);
  }
  return idle;
}

}  // namespace

double percentile(std::vector<double> values, double share) {
  if (values.empty()) return 0.0;
  const double rank = std::ceil(share * static_cast<double>(values.size()));
  const size_t index = static_cast<size_t>(std::max(rank, 1.0)) - 1;
  const auto at = values.begin() + static_cast<std::ptrdiff_t>(std::min(index, values.size() - 1));
  std::nth_element(values.begin(), at, values.end());
  return *at;
}

Spread spread_of(std::vector<double> values) {
  Spread spread;
  if (values.empty()) return spread;
  spread.mean =
      std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
  spread.p50 = percentile(values, 0.50);
  spread.p95 = percentile(values, 0.95);
  spread.p99 = percentile(values, 0.99);
  spread.max = *std::max_element(values.begin(), values.end());
  return spread;
}

std::vector<double> seconds_between_events(std::span<const RequestRecord> records) {
  std::vector<double> gaps;
  for (const RequestRecord& record : records) {
    for (size_t idx = 1; idx < record.arrivals.size(); ++idx) {
      gaps.push_back(record.arrivals[idx].s - record.arrivals[idx - 1].s);
    }
  }
  return gaps;
}

std::vector<double> seconds_between_tokens(std::span<const RequestRecord> records) {
  std::vector<double> gaps = seconds_between_events(records);
  for (const RequestRecord& record : records) {
    for (const TokensAt& arrival : record.arrivals) {
      gaps.insert(gaps.end(), static_cast<size_t>(arrival.tokens - 1), 0.0);
    }
  }
  return gaps;
}

DecodingWindow window_of_decoding(std::span<const RequestRecord> records, int at_once) {
  struct Moment {
    double s;
    int change;  // change in the number of decoding requests
    int32_t tokens;
  };
  std::vector<Moment> moments;
  for (const RequestRecord& record : records) {
    if (record.arrivals.empty()) continue;
    moments.push_back({record.first_token_s(), 1, 0});
    moments.push_back({record.finished_s, -1, 0});
    for (size_t idx = 1; idx < record.arrivals.size(); ++idx) {
      moments.push_back({record.arrivals[idx].s, 0, record.arrivals[idx].tokens});
    }
  }
  // Tokens count for the time before them, so at equal times they come before a change.
  std::sort(moments.begin(), moments.end(), [](const Moment& a, const Moment& b) {
    return a.s != b.s ? a.s < b.s : (a.change == 0) > (b.change == 0);
  });
  DecodingWindow window;
  int decoding = 0;
  double since_s = 0.0;
  for (const Moment& moment : moments) {
    if (decoding >= at_once) {
      window.seconds += moment.s - since_s;
      window.tokens += moment.tokens;
    }
    decoding += moment.change;
    since_s = moment.s;
  }
  return window;
}

HostTime host_time_of(const Trace& trace) {
  HostTime host;
  double turn_ns = 0.0, step_ns = 0.0;
  for (const TraceTurn& turn : trace.turns) turn_ns += static_cast<double>(turn.cpu_ns);
  for (const TraceStep& step : trace.steps) {
    host.results += static_cast<int64_t>(step.items.size());
    step_ns += static_cast<double>(step.host_cpu_ns);
  }
  host.idle_us = spread_of(idle_us(trace));
  host.turn_us = ratio(1e-3 * turn_ns, static_cast<double>(host.results));
  host.step_us = ratio(1e-3 * step_ns, static_cast<double>(host.results));
  return host;
}

LoadRow summarize_load(std::span<const RequestRecord> records, int at_once) {
  LoadRow row;
  row.requests = static_cast<int>(records.size());
  std::vector<double> first_token_s;
  double begin_s = std::numeric_limits<double>::infinity(), end_s = -begin_s;
  double stepped = 0, steps = 0, drafted = 0, accepted = 0;
  for (const RequestRecord& record : records) {
    const RequestStats& stats = record.stats;
    begin_s = std::min(begin_s, record.submitted_s);
    end_s = std::max(end_s, record.finished_s);
    first_token_s.push_back(record.first_token_s() - record.submitted_s);
    row.late_s = std::max(row.late_s, record.submitted_s - record.due_s);
    row.prompt_tokens += stats.prompt_tokens;
    row.output_tokens += stats.output_tokens;
    row.preemptions += stats.preemptions;
    stepped += std::max(stats.output_tokens - 1, 0);
    steps += static_cast<double>(stats.target_steps);
    drafted += static_cast<double>(stats.drafted_tokens);
    accepted += static_cast<double>(stats.accepted_tokens);
  }
  row.window_s = end_s - begin_s;
  row.output_tokens_per_s = ratio(static_cast<double>(row.output_tokens), row.window_s);
  const DecodingWindow window = window_of_decoding(records, at_once);
  row.decoding_s = window.seconds;
  if (window.seconds > 0) {
    row.decoding_tokens_per_s = static_cast<double>(window.tokens) / window.seconds;
  }
  row.first_token_s = spread_of(std::move(first_token_s));
  row.between_tokens_s = spread_of(seconds_between_tokens(records));
  row.between_events_s = spread_of(seconds_between_events(records));
  row.tokens_per_step = ratio(stepped, steps);
  row.acceptance = ratio(accepted, drafted);
  return row;
}

}  // namespace forerun::bench
