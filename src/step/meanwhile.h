// The host's own work beside a Step.
#pragma once

#include <functional>

namespace forerun {

// What the host can do while devices work by themselves: called on the thread that asked for the
// work, once they have got it, or before it where that thread computes itself; not at all where it
// fails early. It must not throw. May be empty.
using Meanwhile = std::function<void()>;

}  // namespace forerun
