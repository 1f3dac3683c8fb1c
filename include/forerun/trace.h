// A trace of an engine's Steps, for timelines, and statistics on how well an emulation kept to its
// times.
//
// Plain data. Times are nanoseconds of the machine's steady clock, or of the simulated executor's
// virtual clock; only differences have a meaning.
#pragma once

#include <cstdint>
#include <vector>

namespace forerun {

// The outcome of a round for the draft tree (SwiftSpec §3.2).
enum class Reroot : uint8_t {
  kNone,  // there is no tree
  kHit,   // the last token was a node of the tree, which continues from there
  kMiss,  // the last token was not a node: the tree starts again
};

// The part of a Step that belongs to one request.
struct TraceItem {
  uint64_t request = 0;  // a request that is rebuilt after a preemption gets a new number
  int32_t rows = 0;
  int64_t submit_ns = 0;
};

// A Step at one stage of a pipelined target.
struct TraceStage {
  int32_t rows = 0;      // rows computed here, without those that had been dropped by then
  int64_t start_ns = 0;  // start and end of the computation
  int64_t end_ns = 0;
  int64_t sent_ns = 0;  // when the result reached the next stage, or the coordinator
};

// A Step of one model.
struct TraceStep {
  bool draft = false;
  int32_t rows = 0;
  int32_t context_tokens = 0;  // the largest number of tokens that a row attends to
  int64_t start_ns = 0;        // forward and sampling
  int64_t end_ns = 0;
  // Thread CPU time of edits, of building the Step and of collecting results.
  int64_t host_cpu_ns = 0;
  std::vector<TraceItem> items;
  // In order; stages of other processes are missing unless they are emulated.
  std::vector<TraceStage> stages;
};

// The engine's work between a result and the request's next work items.
struct TraceTurn {
  uint64_t request = 0;
  bool draft = false;  // the result was the draft's
  int64_t start_ns = 0;
  int64_t end_ns = 0;
  int64_t cpu_ns = 0;             // the same in thread CPU time
  int32_t submitted = 0;          // number of submitted work items
  int32_t tokens = 0;             // number of emitted tokens
  int32_t verified_rows = 0;      // rows of the verification that ended in this turn; 0: none ended
  int32_t accepted_nodes = 0;     // accepted nodes of that verification, without the root
  Reroot reroot = Reroot::kNone;  // its outcome for the tree
};

struct Trace {
  std::vector<TraceStep> steps;
  std::vector<TraceTurn> turns;
  int64_t dropped = 0;  // Steps and turns beyond the recorder's capacity
};

// Statistics on how well Steps kept to the profile of EngineOptions::emulate.
struct EmulationStats {
  int64_t steps = 0;
  int64_t late_steps = 0;     // Steps whose computation alone took longer than the profile says
  double late_seconds = 0.0;  // the sum of these delays
};

}  // namespace forerun
