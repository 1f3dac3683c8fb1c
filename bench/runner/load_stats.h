// Statistics of a load of many requests: throughput, time to the first token, time between tokens.
// Pure functions of the arrival times of tokens. All times are seconds of one clock.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "forerun/engine.h"
#include "forerun/trace.h"

namespace forerun::bench {

// Tokens that arrived together.
struct TokensAt {
  double s = 0.0;
  int32_t tokens = 0;  // at least 1
};

// One finished request, as its reader saw it.
struct RequestRecord {
  double due_s = 0.0;        // time at which it was to arrive
  double submitted_s = 0.0;  // time at which it was passed to the engine
  std::vector<TokensAt> arrivals;
  double finished_s = 0.0;
  std::vector<int32_t> tokens;
  RequestStats stats;

  double first_token_s() const { return arrivals.empty() ? finished_s : arrivals.front().s; }
};

// Returns the smallest value such that at least `share` of all values do not exceed it (nearest
// rank); 0 without values.
double percentile(std::vector<double> values, double share);

struct Spread {
  double mean = 0.0, p50 = 0.0, p95 = 0.0, p99 = 0.0, max = 0.0;
};
Spread spread_of(std::vector<double> values);

// Return the seconds between a request's tokens. Tokens that arrive together share their time, so
// there are 0 seconds between them. seconds_between_events() returns the seconds between arrivals,
// with any number of tokens each.
std::vector<double> seconds_between_tokens(std::span<const RequestRecord> records);
std::vector<double> seconds_between_events(std::span<const RequestRecord> records);

// The time during which `at_once` requests decode: each has its first token and has not finished.
struct DecodingWindow {
  double seconds = 0.0;  // 0: there were never so many
  int64_t tokens = 0;    // number of tokens that arrived in it
};
DecodingWindow window_of_decoding(std::span<const RequestRecord> records, int at_once);

// The host's thread CPU time per result, from a trace: of turns (a strategy's answer to a result)
// and of Steps (edits, building the Step, collecting results), divided by the items of all Steps.
struct HostTime {
  int64_t results = 0;
  double turn_us = 0.0;  // per result
  double step_us = 0.0;
  Spread idle_us;  // gaps in which no Step of either model runs
};
HostTime host_time_of(const Trace& trace);

// One strategy at one temperature and concurrency.
struct LoadRow {
  std::string strategy;  // as requested; "auto" may have run several
  float temperature = 0.0f;
  int requests = 0;
  int concurrency = 0;  // limit on requests in flight; 0: no limit
  int64_t prompt_tokens = 0;
  int64_t output_tokens = 0;
  double window_s = 0.0;  // time from the first submission to the last finish
  double output_tokens_per_s = 0.0;
  // Throughput while as many requests decode as may be in flight; unset if that never happened.
  std::optional<double> decoding_tokens_per_s;
  double decoding_s = 0.0;
  Spread first_token_s;  // time from submission
  Spread between_tokens_s;
  Spread between_events_s;
  double tokens_per_step = 0.0;  // per target Step of a request, without the prompt
  double acceptance = 0.0;
  int64_t preemptions = 0;
  double late_s = 0.0;                      // longest time from due to submission
  double ratio_to_baseline = 0.0;           // ratio of output_tokens_per_s
  double decoding_ratio_to_baseline = 0.0;  // 0: one of them has no value
  std::optional<int> identical;  // number of `requests` with equal tokens; unset if not compared
  std::optional<HostTime> host;
};

// Needs at least one record. The caller fills in strategy, temperature, concurrency, ratios,
// identical and host. `at_once` is the number of requests that must decode for
// decoding_tokens_per_s.
LoadRow summarize_load(std::span<const RequestRecord> records, int at_once);

}  // namespace forerun::bench
