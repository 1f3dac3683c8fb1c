// The clocks of traces, in nanoseconds; only differences mean anything. May be called from any
// thread.
#pragma once

#include <cstdint>

namespace forerun {

// Returns the time of the machine's steady clock.
int64_t steady_ns();

// thread_cpu_ns() returns the processor time of the calling thread so far. Each reading is a system
// call, so the difference of two readings includes the cost of one. thread_cpu_read_ns() returns
// that cost (measured at its first call), for callers that subtract it from short intervals.
int64_t thread_cpu_ns();
int64_t thread_cpu_read_ns();

}  // namespace forerun
