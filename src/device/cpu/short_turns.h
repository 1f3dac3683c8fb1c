// What threads that wait for each other ask of the scheduler, so that busy neighbours cost them
// their share of the processor and no more.
#pragma once

#include <chrono>

namespace forerun {

// The calling thread's turns on a processor that others want too shall be short, and begin at once
// when it wakes and has had less than its share. Threads of a team meet hundreds of times a Step:
// each meeting for which one sleeps would else end when a neighbour's turn does, after milliseconds
// (Linux protects a turn from wakers whose own turns are as long). Its share stays what it was, and
// where nobody disturbs nothing changes. False where the system does not do it (Linux before 6.12)
// or the thread is under another policy than the usual one, which is then left as it is.
bool ask_for_short_turns();

// The length of a thread's turns as the system tells it; 0: it does not. `thread`: its number in
// the system, 0 for the calling one.
std::chrono::nanoseconds turn_length(int thread = 0);

// The least that Linux grants.
inline constexpr std::chrono::microseconds kShortTurn{100};

}  // namespace forerun
