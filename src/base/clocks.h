// The clocks that traces are kept by, in nanoseconds; only differences mean anything. Any thread.
#pragma once

#include <cstdint>

namespace forerun {

// The machine's steady clock.
int64_t steady_ns();

// What the calling thread has computed so far. Reading it is a system call; between the moments of
// two readings lies the cost of one, which thread_cpu_read_ns() tells (measured at its first call),
// so that short stretches can be told without it.
int64_t thread_cpu_ns();
int64_t thread_cpu_read_ns();

}  // namespace forerun
