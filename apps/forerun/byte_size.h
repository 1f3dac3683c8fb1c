// Sizes of memory as people write them.
#pragma once

#include <cstdint>
#include <string_view>

#include "forerun/status.h"

namespace forerun::app {

// Bytes of "512MB", "4GB", "1.5 GiB", "1000000": a number of 0 or more, then B, or K, M, G, T
// (1000 times the one before; with i 1024 times), with or without a B. Case does not matter; a part
// of a byte is dropped. Fails on all else and beyond 2^63 - 1.
Result<int64_t> parse_byte_size(std::string_view text);

}  // namespace forerun::app
