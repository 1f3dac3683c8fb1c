// How much memory this process may still take.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

namespace forerun {

struct MemoryLimit {
  int64_t available_bytes = INT64_MAX;
  std::string source;  // what sets the limit, for messages: "MemAvailable", a control group's file
};

// The least of MemAvailable and what the control groups of this process leave (limit - usage + the
// page cache they could drop). Unlimited where the system says nothing. `root` stands in front of
// /proc and /sys, for tests.
MemoryLimit memory_limit(const std::filesystem::path& root = "/");

}  // namespace forerun
