#include "base/printable.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdio>

#include "base/terminal_text.h"

namespace forerun {
namespace {

// The first character of a text: its length in bytes, and its code point if the bytes are UTF-8.
struct Character {
  size_t bytes = 1;
  bool is_utf8 = false;
  uint32_t value = 0;
};

Character first_character(std::string_view text) {
  const auto byte = [text](size_t at) { return static_cast<unsigned char>(text[at]); };
  const unsigned char lead = byte(0);
  if (lead < 0x80) return {1, true, lead};
  const size_t bytes = lead < 0xc2 ? 0 : lead < 0xe0 ? 2 : lead < 0xf0 ? 3 : lead < 0xf5 ? 4 : 0;
  if (bytes == 0 || text.size() < bytes) return {};
  uint32_t value = lead & (0x7fU >> bytes);
  for (size_t at = 1; at < bytes; ++at) {
    if ((byte(at) & 0xc0) != 0x80) return {};
    value = value << 6 | (byte(at) & 0x3f);
  }
  constexpr std::array<uint32_t, 5> kSmallest = {0, 0, 0x80, 0x800, 0x10000};
  const bool is_surrogate = value >= 0xd800 && value <= 0xdfff;
  if (value < kSmallest[bytes] || is_surrogate || value > 0x10ffff) return {};
  return {bytes, true, value};
}

bool is_harmless(const Character& character) {
  const uint32_t value = character.value;
  const bool is_control = value < 0x20 || (value >= 0x7f && value <= 0x9f);
  const bool turns_line = value == 0x200e || value == 0x200f ||
                          (value >= 0x202a && value <= 0x202e) ||
                          (value >= 0x2066 && value <= 0x2069);
  return character.is_utf8 && !is_control && !turns_line && value != 0x2028 && value != 0x2029;
}

void append_escaped(std::string_view bytes, std::string& out) {
  for (const char c : bytes) {
    std::array<char, 8> escaped{};
    std::snprintf(escaped.data(), escaped.size(), "\\x%02x", static_cast<unsigned char>(c));
    out += escaped.data();
  }
}

}  // namespace

std::string printable(std::string_view text) {
  constexpr size_t kMaxBytes = 120;
  std::string result;
  for (size_t at = 0; at < text.size();) {
    const Character character = first_character(text.substr(at));
    if (at + character.bytes > kMaxBytes) {
      result += "...";
      break;
    }
    const std::string_view bytes = text.substr(at, character.bytes);
    if (bytes == "\"" || bytes == "\\") result += '\\';
    if (is_harmless(character)) {
      result += bytes;
    } else {
      append_escaped(bytes, result);
    }
    at += character.bytes;
  }
  return result;
}

std::string in_quotes(std::string_view text) {
  std::string result = "\"";
  result += printable(text);
  result += '"';
  return result;
}

std::string terminal_text(std::string_view text) {
  std::string result;
  for (size_t at = 0; at < text.size();) {
    const Character character = first_character(text.substr(at));
    const std::string_view bytes = text.substr(at, character.bytes);
    if (is_harmless(character) || bytes == "\n" || bytes == "\t") {
      result += bytes;
    } else {
      append_escaped(bytes, result);
    }
    at += character.bytes;
  }
  return result;
}

}  // namespace forerun
