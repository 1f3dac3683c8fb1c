// Analysis of a trace: rounds with their hits and misses of the draft tree (Reroot,
// forerun/trace.h), gaps between Steps, and the main performance figures. All functions are pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "forerun/trace.h"

namespace forerun {

// One verification of a request and the work before it, from the target's previous result to this
// one.
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

// Returns the rounds in the order of their ends. A request's first result, its prefill, ends no
// round.
std::vector<TraceRound> rounds_of(const Trace& trace);

// A model's time between two of its Steps.
struct TraceGap {
  bool draft = false;
  int64_t start_ns = 0;  // end of the Step before
  int64_t ready_ns = 0;  // submission of the next Step's first item; within [start_ns, end_ns]
  int64_t end_ns = 0;    // start of the next Step

  // Returns the part of the gap after the next item's submission, which the host took.
  int64_t host_ns() const { return end_ns - ready_ns; }
};

// Returns the gaps in the order of their starts, the target's first. A target with stages has none,
// since its Steps overlap.
std::vector<TraceGap> gaps_of(const Trace& trace);

// Returns the largest number of stages that a Step has passed; 0 if the target has no stages.
size_t num_stages(const Trace& trace);

// The earliest and the latest moment of a trace; equal if it is empty.
struct TraceSpan {
  int64_t start_ns = 0;
  int64_t end_ns = 0;
};
TraceSpan span_of(const Trace& trace);

// Returns a readable table: Steps and busy time by model, rounds, hits, the host's time per round
// and between a draft's result and its next work. Lines end in '\n'.
std::string summarize(const Trace& trace);

}  // namespace forerun
