// Messages about JSON members that a client sent, for the few files that read them: it brings
// nlohmann-json along.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "forerun/status.h"

namespace forerun::server {

using Json = nlohmann::ordered_json;

// Copying and writing a value take stack for each level, and Json looks for a member among all
// those before it.
constexpr int kMaxJsonDepth = 128;
constexpr int kMaxJsonMembers = 2048;  // of an object

// What a JSON text has too much of, to be asked before it is parsed; null: nothing. Of a broken
// text it sees no more than what stands before the fault.
const char* excess_of_json(std::string_view text);

// The value of a JSON text; discarded (Json::is_discarded) where it is broken or has too much.
Json parse_json(std::string_view text);

// "<path>: found <value>, accepted <accepted>" as kInvalidArgument. A text is shown in single
// quotes, other values as JSON, long ones cut; null pointer: "nothing".
Status refuse(const std::string& path, const Json* value, std::string_view accepted);

// The member of an object, or null where it is absent or null itself.
const Json* member_of(const Json& object, const char* name);

// The text of a member that must be there.
Result<std::string> text_member(const Json& object, const char* name, const std::string& path);

inline std::string item_path(const std::string& path, size_t idx) {
  return path + "[" + std::to_string(idx) + "]";
}

// The value as compact JSON; text that is no UTF-8 has its bad bytes replaced.
std::string dump_json(const Json& value);

}  // namespace forerun::server
