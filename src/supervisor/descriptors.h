// Functions for reading and writing descriptors without blocking.
//
// Thread rules: one thread at a time for a descriptor.
#pragma once

#include <cstddef>
#include <functional>
#include <span>

#include "forerun/status.h"

namespace forerun {

// Makes reads and writes of the descriptor return at once.
void make_non_blocking(int descriptor);

// Closes the descriptor and sets it to -1, unless it is -1 already.
void close_once(int& descriptor);

// Passes the input that is available without waiting to `take`, piece by piece. Fails with
// kCancelled at the end of the input, and as `take` does; the descriptor is then closed, as by
// close_once().
Status read_available(int& descriptor, const std::function<Status(std::span<const char>)>& take);

}  // namespace forerun
