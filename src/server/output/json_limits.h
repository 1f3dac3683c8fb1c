// Limits of the size and nesting of a client's JSON.
#pragma once

#include <string_view>

#include "server/json_fwd.h"

namespace forerun::server {

// Copying and writing a value take stack for each level, and Json looks for a member among all
// those before it.
constexpr int kMaxJsonDepth = 128;
constexpr int kMaxJsonMembers = 2048;  // members of an object

// Names the limit that a JSON text exceeds; null: none. Call it before the text is parsed. A broken
// text is checked only up to its fault.
const char* excess_of_json(std::string_view text);

// The value of a JSON text; discarded (Json::is_discarded) where it is broken or has too much.
Json parse_json(std::string_view text);

}  // namespace forerun::server
