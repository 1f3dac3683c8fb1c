// API keys, and what the owner of each may do.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "forerun/status.h"

namespace forerun::server {

// The range of "priority" is this far to either side of 0; what is lower is served first.
constexpr int32_t kMaxPriority = 1'000'000;

struct ApiKey {
  std::string key;
  std::optional<int32_t> min_priority = {};  // instead of AccessOptions::min_priority
};

// Reads a file with a key a line, and what its owner may behind it: "KEY min_priority=-10". Empty
// lines and those that begin with '#' are left out. Fails where the file cannot be read, holds no
// key or says something else, with the place.
Result<std::vector<ApiKey>> read_api_keys(const std::string& path);

}  // namespace forerun::server
