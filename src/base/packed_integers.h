// Lists of integers of at least 0 as text that is short where they are small: Base64 VLQ without a
// sign. A character holds five bits, the lowest first, and 32 more where another one follows.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace forerun {

void append_packed(std::string& packed, int64_t value);

// Unset where `packed` is no list of integers from 0 to `max`, which is below 2^58.
std::optional<std::vector<int64_t>> unpack_integers(std::string_view packed, int64_t max);

}  // namespace forerun
