// Prompts for benches: JSON lines with a "prompt" or, as in MT-bench-like files, "turns".
#pragma once

#include <string>
#include <vector>

#include "forerun/status.h"

namespace forerun::bench {

// Reads at most `limit` prompts (0: all), evenly spread over the file.
Result<std::vector<std::string>> read_prompts(const std::string& path, int limit);

}  // namespace forerun::bench
