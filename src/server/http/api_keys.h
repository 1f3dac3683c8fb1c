// API keys and the rights of their owners.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "forerun/status.h"

namespace forerun::server {

// "priority" ranges from -kMaxPriority to kMaxPriority; lower values are served first.
constexpr int32_t kMaxPriority = 1'000'000;

struct ApiKey {
  std::string key;
  std::optional<int32_t> min_priority = {};  // replaces AccessOptions::min_priority for this key
};

// Reads a file with one key per line, optionally followed by the rights of its owner: "KEY
// min_priority=-10". Skips empty lines and those that begin with '#'. Fails, naming the line, if a
// line has any other form, and if the file cannot be read or holds no key.
Result<std::vector<ApiKey>> read_api_keys(const std::string& path);

}  // namespace forerun::server
