// Limits of the size and nesting of a client's JSON.
#pragma once

#include <string_view>

#include "server/json_fwd.h"

namespace forerun::server {

// Copying and writing a value use stack for each level, and Json compares each member with all
// earlier ones.
constexpr int kMaxJsonDepth = 128;
constexpr int kMaxJsonMembers = 2048;  // members of an object

// Returns the name of the limit that a JSON text exceeds; null: none. Call it before the text is
// parsed. An invalid text is checked only up to its error.
const char* excess_of_json(std::string_view text);

// Parses a JSON text; the result is discarded (Json::is_discarded) if the text is invalid or
// exceeds a limit.
Json parse_json(std::string_view text);

}  // namespace forerun::server
