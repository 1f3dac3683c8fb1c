// Encodes lists of non-negative integers as text that is short for small values: Base64 VLQ without
// a sign. A character holds five bits, the lowest first; its sixth bit (32) says that another one
// follows.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace forerun {

void append_packed(std::string& packed, int64_t value);

// Returns nothing if `packed` is not a list of integers from 0 to `max`; `max` is below 2^58.
std::optional<std::vector<int64_t>> unpack_integers(std::string_view packed, int64_t max);

}  // namespace forerun
