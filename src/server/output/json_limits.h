// How large and how deeply nested the JSON of a client may be.
#pragma once

#include <string_view>

#include "server/json_fwd.h"

namespace forerun::server {

// Copying and writing a value take stack for each level, and Json looks for a member among all
// those before it.
constexpr int kMaxJsonDepth = 128;
constexpr int kMaxJsonMembers = 2048;  // of an object

// What a JSON text has too much of, to be asked before it is parsed; null: nothing. Of a broken
// text it sees no more than what stands before the fault.
const char* excess_of_json(std::string_view text);

// The value of a JSON text; discarded (Json::is_discarded) where it is broken or has too much.
Json parse_json(std::string_view text);

}  // namespace forerun::server
