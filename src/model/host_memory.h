// The host memory that this process may still take.
#pragma once

#include <filesystem>

#include "model/device_memory.h"

namespace forerun {

// "this machine", without needs. Available are the least of MemAvailable and what the control
// groups of this process leave (limit - usage + the page cache that they could drop); `source` says
// which. Unlimited where the system says nothing. `root` stands in front of /proc and /sys, for
// tests.
DeviceMemory host_memory(const std::filesystem::path& root = "/");

}  // namespace forerun
