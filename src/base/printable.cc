#include "base/printable.h"

#include <cstdio>

namespace forerun {

std::string printable(std::string_view text) {
  constexpr size_t kMaxBytes = 120;
  std::string_view kept = text.substr(0, kMaxBytes);
  if (kept.size() < text.size()) {
    // Bytes that continue a character whose first byte is cut off would be no UTF-8.
    const auto continues = [&](size_t at) {
      return (static_cast<unsigned char>(text[at]) & 0xc0) == 0x80;
    };
    while (!kept.empty() && continues(kept.size())) kept.remove_suffix(1);
  }
  std::string result;
  for (const char c : kept) {
    if (c == '"' || c == '\\') {
      result += '\\';
      result += c;
    } else if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) {
      char escaped[8];
      std::snprintf(escaped, sizeof escaped, "\\x%02x", static_cast<unsigned char>(c));
      result += escaped;
    } else {
      result += c;
    }
  }
  if (kept.size() < text.size()) result += "...";
  return result;
}

std::string in_quotes(std::string_view text) {
  std::string result = "\"";
  result += printable(text);
  result += '"';
  return result;
}

}  // namespace forerun
