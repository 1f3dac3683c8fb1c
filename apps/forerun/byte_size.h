// Parses memory sizes as users write them.
#pragma once

#include <cstdint>
#include <string_view>

#include "forerun/status.h"

namespace forerun::app {

// Returns the number of bytes in "512MB", "4GB", "1.5 GiB" or "1000000": a number of at least 0,
// then B or one of K, M, G, T (each 1000 times the previous one; 1024 times with an i), with or
// without a B. Ignores case, and drops a fraction of a byte. Fails on any other text and above 2^63
// - 1.
Result<int64_t> parse_byte_size(std::string_view text);

}  // namespace forerun::app
