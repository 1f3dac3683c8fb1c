// API keys and the rights of their owners.
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
  std::optional<int32_t> min_priority = {};  // replaces AccessOptions::min_priority for this key
};

// Reads a file with one key a line, behind which the rights of its owner may stand: "KEY
// min_priority=-10". Skips empty lines and those that begin with '#'. Fails, naming the line, where
// a line says anything else, and where the file cannot be read or holds no key.
Result<std::vector<ApiKey>> read_api_keys(const std::string& path);

}  // namespace forerun::server
