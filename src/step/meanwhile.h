// Work that the host does while devices run a Step.
#pragma once

#include <functional>

namespace forerun {

// A function that the host runs while devices work. It runs on the thread that asked for the
// devices' work, after the launch, or before the work if that thread computes itself; it does not
// run if the work fails early. It must not throw. It may be empty.
using Meanwhile = std::function<void()>;

}  // namespace forerun
