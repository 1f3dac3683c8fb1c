#include "server/output/json_limits.h"

#include <array>

#include "server/json.h"

namespace forerun::server {

const char* excess_of_json(std::string_view text) {
  int depth = 0;
  // Indexed by depth: the number of colons in the object that is open there.
  std::array<int, kMaxJsonDepth + 1> members = {};
  bool in_string = false;
  for (size_t idx = 0; idx < text.size(); ++idx) {
    const char byte = text[idx];
    if (byte == '"') in_string = !in_string;
    if (in_string) {
      if (byte == '\\') ++idx;
    } else if (byte == '{' || byte == '[') {
      if (++depth > kMaxJsonDepth) return "it is nested too deeply";
      members[static_cast<size_t>(depth)] = 0;
    } else if (byte == '}' || byte == ']') {
      if (--depth < 0) return nullptr;  // the parser reports the error
    } else if (byte == ':' && ++members[static_cast<size_t>(depth)] > kMaxJsonMembers) {
      return "an object in it has too many members";
    }
  }
  return nullptr;
}

Json parse_json(std::string_view text) {
  if (excess_of_json(text) != nullptr) return Json(Json::value_t::discarded);
  return Json::parse(text, nullptr, /*allow_exceptions=*/false);
}

}  // namespace forerun::server
