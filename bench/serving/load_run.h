// Puts a load on a server: connections that call again and again, or calls that arrive at given
// times, together with idle connections. One thread, which waits for sockets (epoll).
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "forerun/status.h"
#include "runner/arrivals.h"
#include "serving/process_meter.h"
#include "serving/time_histogram.h"

namespace forerun::bench {

struct LoadOptions {
  std::string host = "127.0.0.1";
  uint16_t port = 8080;
  int32_t streams = 256;  // maximum calls at a time
  // kAll: when a call ends, the next one starts. kPoisson, kEvery: calls arrive at given times, and
  // wait while `streams` calls run.
  Arrivals arrivals;
  int32_t idle_connections = 0;
  double seconds = 60.0;             // time in which calls begin; then running calls are waited for
  double silence_seconds = 60.0;     // silence after which a call has failed
  std::vector<std::string> prompts;  // not empty
  std::vector<std::string> strategies;  // strategies that calls request in turn; empty: none
  int32_t max_tokens = 128;             // calls request between 1/8 of it and all of it
  double leave_share = 0.0;             // share of calls with clients that leave in the middle
  uint64_t seed = 1;
  bool reads_stamps = false;    // the server is a null engine's
  pid_t server_process = 0;     // 0: not measured
  std::string engine_thread;    // thread of the server with CPU time that is reported separately
  double sample_seconds = 1.0;  // interval at which the server's memory is measured
};

struct MemorySample {
  double s = 0.0;  // since the start
  double mib = 0.0;
};

struct LoadReport {
  double seconds = 0.0;  // from the first call to the end of the last
  int64_t complete = 0, refused = 0, left = 0, failed = 0;
  std::map<std::string, int64_t> failures;  // number of each
  int64_t output_tokens = 0;                // of complete calls
  int64_t events = 0;
  int32_t most_at_once = 0;
  double longest_wait_s = 0.0;  // of a call that came while the maximum number ran
  TimeHistogram first_token, between_events;
  TimeHistogram between_stamps, delivery;  // by the engine's stamps; from stamp to arrival
  int32_t idle_opened = 0, idle_lost = 0;
  CpuTime server_cpu;  // used during the run
  std::vector<MemorySample> memory;
};

// Fails if the server cannot be reached or the process has too few descriptors.
Result<LoadReport> run_load(const LoadOptions& options);

}  // namespace forerun::bench
