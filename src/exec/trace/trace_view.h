// Reads a trace: rounds with their hits and misses, gaps between Steps, and the figures that
// performance is judged by. Pure functions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "forerun/trace.h"

namespace forerun {

// One verification of a request and what led to it: from the target's previous result to this one.
struct TraceRound {
  uint64_t request = 0;
  int64_t start_ns = 0;
  int64_t end_ns = 0;
  int32_t tokens = 0;
  int32_t verified_rows = 0;
  int32_t accepted_nodes = 0;
  Reroot reroot = Reroot::kNone;
  // Thread CPU time of the request's turns, plus its share of the host's time for Steps.
  int64_t host_cpu_ns = 0;
};

// In order of their ends. A request's first result, its prefill, ends no round.
std::vector<TraceRound> rounds_of(const Trace& trace);

// A model's time between two of its Steps.
struct TraceGap {
  bool draft = false;
  int64_t start_ns = 0;  // the Step before has ended
  int64_t ready_ns = 0;  // the next one's first item is there; within [start_ns, end_ns]
  int64_t end_ns = 0;    // the next Step starts

  // The part of the gap after the next item was submitted, which the host took.
  int64_t host_ns() const { return end_ns - ready_ns; }
};

// In order of their starts, the target's first. A target in stages has none, since its Steps
// overlap.
std::vector<TraceGap> gaps_of(const Trace& trace);

// The most stages that a Step of the trace has passed; 0: the target is not cut.
size_t num_stages(const Trace& trace);

// The earliest and the latest moment of a trace; equal where it is empty.
struct TraceSpan {
  int64_t start_ns = 0;
  int64_t end_ns = 0;
};
TraceSpan span_of(const Trace& trace);

// A table for people: Steps and busy time by model, rounds, hits, the host's time a round and
// between a draft's result and its next work. Lines end in '\n'.
std::string summarize(const Trace& trace);

}  // namespace forerun
