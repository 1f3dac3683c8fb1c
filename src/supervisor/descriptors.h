// Functions for readers and writers of descriptors, none of which ever blocks.
//
// Threads: one at a time for a descriptor.
#pragma once

#include <cstddef>
#include <functional>
#include <span>

#include "forerun/status.h"

namespace forerun {

// From now on reads and writes return at once.
void make_non_blocking(int descriptor);

// Closes the descriptor, which becomes -1, unless it is that already.
void close_once(int& descriptor);

// Hands what can be read without waiting to `take`, piece by piece. Fails with kCancelled at the
// end of the input, and as `take` does; the descriptor is closed then, as by close_once().
Status read_available(int& descriptor, const std::function<Status(std::span<const char>)>& take);

}  // namespace forerun
