// Memory sizes in the notation that users write.
#pragma once

#include <cstdint>
#include <string_view>

#include "forerun/status.h"

namespace forerun::app {

// The number of bytes in "512MB", "4GB", "1.5 GiB" or "1000000": a number of at least 0, then B or
// one of K, M, G, T (each 1000 times the one before; 1024 times with an i), with or without a B.
// Case does not matter, and a fraction of a byte is dropped. Fails on anything else and beyond
// 2^63 - 1.
Result<int64_t> parse_byte_size(std::string_view text);

}  // namespace forerun::app
