// Requests for short time slices from the Linux scheduler. Threads that wait for each other then
// lose only their busy neighbours' share of the CPU, not whole slices at every wait.
#pragma once

#include <chrono>

namespace forerun {

// Asks for short time slices for the calling thread, so that on a contended CPU it runs as soon as
// it wakes, if it has had less than its share. Threads of a team meet hundreds of times a Step.
// With the usual slices, a member that sleeps at a meeting would wait until a neighbour's slice
// ends, which takes milliseconds (Linux protects a running slice from a waking thread whose own
// slice is not shorter). The thread's share of the CPU does not change, and without contention
// nothing changes. Returns false if the system does not support this (Linux before 6.12) or if the
// thread has another scheduling policy than the default, which it then keeps.
bool ask_for_short_slices();

// Returns the length of a thread's time slice, or 0 if the system does not report it. `thread` is
// the system's thread id; 0 stands for the calling thread.
std::chrono::nanoseconds slice_length(int thread = 0);

// The shortest time slice that Linux grants.
inline constexpr std::chrono::microseconds kShortSlice{100};

}  // namespace forerun
