#include "server/output/json_checks.h"

#include <array>

namespace forerun::server {
namespace {

constexpr size_t kShownBytes = 60;

std::string shown(const Json* value) {
  if (value == nullptr) return "nothing";
  std::string text = value->is_string() ? value->get<std::string>() : dump_json(*value);
  if (text.size() > kShownBytes) {
    size_t end = kShownBytes;
    while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xc0) == 0x80) --end;
    text.resize(end);
    text += "...";
  }
  return value->is_string() ? "'" + text + "'" : text;
}

}  // namespace

const char* excess_of_json(std::string_view text) {
  int depth = 0;
  // By depth: colons of the object that is open there.
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
      if (--depth < 0) return nullptr;  // the parser says what is wrong
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

std::string dump_json(const Json& value) {
  return value.dump(-1, ' ', false, Json::error_handler_t::replace);
}

Status refuse(const std::string& path, const Json* value, std::string_view accepted) {
  return {StatusCode::kInvalidArgument,
          path + ": found " + shown(value) + ", accepted " + std::string(accepted)};
}

const Json* member_of(const Json& object, const char* name) {
  const auto member = object.find(name);
  return member == object.end() || member->is_null() ? nullptr : &*member;
}

Result<std::string> text_member(const Json& object, const char* name, const std::string& path) {
  const Json* value = member_of(object, name);
  if (value == nullptr || !value->is_string()) {
    return refuse(path + "." + name, value, "is a text");
  }
  return value->get<std::string>();
}

}  // namespace forerun::server
