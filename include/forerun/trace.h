// A trace of an engine's Steps, for timelines, and statistics on how well an emulation kept to its
// times.
//
// Plain data. Times are nanoseconds of the machine's steady clock, or of the simulated executor's
// virtual clock; only differences have a meaning.
#pragma once

#include <cstdint>
#include <vector>

namespace forerun {

// What happened to the draft tree at the end of a round (SwiftSpec §3.2).
enum class Reroot : uint8_t {
  kNone,  // there was no tree
  kHit,   // the last token was a node of the tree, which continues from there
  kMiss,  // the last token was not a node: the tree starts again
};

// One request's share of a Step.
struct TraceItem {
  uint64_t request = 0;  // a request that is rebuilt after a preemption gets a new number
  int32_t rows = 0;
  int64_t submit_ns = 0;
};

// A Step at one stage of a target that is cut.
struct TraceStage {
  int32_t rows = 0;      // computed here, without those that had been dropped by then
  int64_t start_ns = 0;  // begin and end of the work
  int64_t end_ns = 0;
  int64_t sent_ns = 0;  // when the result is at the next stage, or back at the coordinator
};

// A Step of one model.
struct TraceStep {
  bool draft = false;
  int32_t rows = 0;
  int32_t context_tokens = 0;  // the largest number of tokens that a row sees
  int64_t start_ns = 0;        // forward and sampling
  int64_t end_ns = 0;
  int64_t host_cpu_ns = 0;  // edits, building the Step, collecting results: thread CPU time
  std::vector<TraceItem> items;
  std::vector<TraceStage> stages;  // in their order; of stages in this process, or emulated ones
};

// The engine's work between a result and the next work of its request.
struct TraceTurn {
  uint64_t request = 0;
  bool draft = false;  // the result was the draft's
  int64_t start_ns = 0;
  int64_t end_ns = 0;
  int64_t cpu_ns = 0;             // the same in thread CPU time
  int32_t submitted = 0;          // work items
  int32_t tokens = 0;             // tokens that came out
  int32_t verified_rows = 0;      // rows of the verification that ended here; 0: none did
  int32_t accepted_nodes = 0;     // accepted nodes of it, without the root
  Reroot reroot = Reroot::kNone;  // how it ended for the tree
};

struct Trace {
  std::vector<TraceStep> steps;
  std::vector<TraceTurn> turns;
  int64_t dropped = 0;  // Steps and turns beyond the recorder's capacity
};

// How well Steps kept to the profile of EngineOptions::emulate.
struct EmulationStats {
  int64_t steps = 0;
  int64_t late_steps = 0;     // Steps whose computation alone took longer than the profile says
  double late_seconds = 0.0;  // the sum of these delays
};

}  // namespace forerun
