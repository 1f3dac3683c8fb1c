// The host memory that this process may still allocate.
#pragma once

#include <filesystem>

#include "model/device_memory.h"

namespace forerun {

// Returns a memory named "this machine", without needs. Its available bytes are the minimum of
// MemAvailable and of the rest that the control groups of this process leave (limit - usage + the
// page cache that they could drop); `source` says which. They are unlimited if the system reports
// nothing. `root` is the prefix of /proc and /sys, for tests.
DeviceMemory host_memory(const std::filesystem::path& root = "/");

}  // namespace forerun
