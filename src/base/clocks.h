// The clocks that traces are kept by, in nanoseconds; only differences mean anything. Any thread.
#pragma once

#include <cstdint>

namespace forerun {

// The machine's steady clock.
int64_t steady_ns();

// The processor time of the calling thread so far. Each reading is a system call, so the difference
// of two readings includes the cost of one; thread_cpu_read_ns() returns that cost (measured at its
// first call), so that it can be subtracted from short stretches.
int64_t thread_cpu_ns();
int64_t thread_cpu_read_ns();

}  // namespace forerun
