// Work that the host does while devices run a Step.
#pragma once

#include <functional>

namespace forerun {

// What the host can do while devices work. Called on the thread that asked for the devices' work,
// once the work has been launched, or before it where that thread computes itself; not called where
// the work fails early. It must not throw. May be empty.
using Meanwhile = std::function<void()>;

}  // namespace forerun
