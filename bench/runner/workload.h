// Prompts for benches: JSON lines with a "prompt" or, as in MT-bench-like files, "turns".
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "forerun/status.h"

namespace forerun::bench {

// Reads at most `limit` prompts (0: all), evenly spread over the file.
Result<std::vector<std::string>> read_prompts(const std::string& path, int limit);

// Makes `count` different prompts of exactly `length` tokens. Prompt i begins with text i modulo
// their number and continues with the texts after it, in a circle; from the second pass on it skips
// some of its beginning. `texts` has the tokens of each text; at least one must not be empty. Both
// numbers must be at least 1.
std::vector<std::vector<int32_t>> prompts_of_length(const std::vector<std::vector<int32_t>>& texts,
                                                    int count, int32_t length);

}  // namespace forerun::bench
