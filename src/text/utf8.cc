#include "text/utf8.h"

#include <cstring>

namespace forerun::text {
namespace {

// The continuation of a lead byte: total length and the accepted range of the second byte, which
// excludes overlong forms, surrogates and values above U+10FFFF.
struct Lead {
  uint32_t len = 0;
  uint8_t second_low = 0x80;
  uint8_t second_high = 0xbf;
};

Lead lead_of(uint8_t byte) {
  if (byte < 0x80) return {1, 0, 0};
  if (byte >= 0xc2 && byte <= 0xdf) return {2, 0x80, 0xbf};
  if (byte == 0xe0) return {3, 0xa0, 0xbf};
  if (byte == 0xed) return {3, 0x80, 0x9f};
  if (byte >= 0xe1 && byte <= 0xef) return {3, 0x80, 0xbf};
  if (byte == 0xf0) return {4, 0x90, 0xbf};
  if (byte >= 0xf1 && byte <= 0xf3) return {4, 0x80, 0xbf};
  if (byte == 0xf4) return {4, 0x80, 0x8f};
  return {};
}

// Returns how many bytes of `text` form the longest beginning of a well-formed character.
uint32_t accepted_bytes(std::string_view text, const Lead& lead) {
  uint32_t count = 1;
  while (count < lead.len && count < text.size()) {
    const uint8_t byte = static_cast<uint8_t>(text[count]);
    const uint8_t low = count == 1 ? lead.second_low : uint8_t{0x80};
    const uint8_t high = count == 1 ? lead.second_high : uint8_t{0xbf};
    if (byte < low || byte > high) break;
    ++count;
  }
  return count;
}

}  // namespace

CodePoint first_code_point(std::string_view text) {
  if (text.empty()) return {};
  const uint8_t byte = static_cast<uint8_t>(text[0]);
  if (byte < 0x80) return {byte, 1, true};
  const Lead lead = lead_of(byte);
  if (lead.len == 0) return {kReplacementCharacter, 1, false};
  const uint32_t count = accepted_bytes(text, lead);
  if (count < lead.len) return {kReplacementCharacter, count, false};
  char32_t value = byte & (0x7fu >> lead.len);
  for (uint32_t i = 1; i < lead.len; ++i) {
    value = (value << 6) | (static_cast<uint8_t>(text[i]) & 0x3fu);
  }
  return {value, lead.len, true};
}

CodePoint last_code_point(std::string_view text) {
  if (text.empty()) return {};
  size_t begin = text.size() - 1;
  while (begin > 0 && text.size() - begin < 4 &&
         (static_cast<uint8_t>(text[begin]) & 0xc0) == 0x80) {
    --begin;
  }
  const CodePoint point = first_code_point(text.substr(begin));
  if (point.well_formed && begin + point.len_bytes == text.size()) return point;
  return {kReplacementCharacter, 1, false};
}

void append_utf8(char32_t value, std::string& out) {
  if (value < 0x80) {
    out.push_back(static_cast<char>(value));
  } else if (value < 0x800) {
    out.push_back(static_cast<char>(0xc0 | (value >> 6)));
    out.push_back(static_cast<char>(0x80 | (value & 0x3f)));
  } else if (value < 0x10000) {
    out.push_back(static_cast<char>(0xe0 | (value >> 12)));
    out.push_back(static_cast<char>(0x80 | ((value >> 6) & 0x3f)));
    out.push_back(static_cast<char>(0x80 | (value & 0x3f)));
  } else {
    out.push_back(static_cast<char>(0xf0 | (value >> 18)));
    out.push_back(static_cast<char>(0x80 | ((value >> 12) & 0x3f)));
    out.push_back(static_cast<char>(0x80 | ((value >> 6) & 0x3f)));
    out.push_back(static_cast<char>(0x80 | (value & 0x3f)));
  }
}

size_t well_formed_prefix(std::string_view text) {
  size_t at = 0;
  while (at < text.size()) {
    uint64_t word = 0;
    if (at + sizeof(word) <= text.size()) {
      std::memcpy(&word, text.data() + at, sizeof(word));
      if ((word & 0x8080808080808080u) == 0) {
        at += sizeof(word);
        continue;
      }
    }
    const uint8_t byte = static_cast<uint8_t>(text[at]);
    if (byte < 0x80) {
      ++at;
      continue;
    }
    const CodePoint point = first_code_point(text.substr(at));
    if (!point.well_formed) break;
    at += point.len_bytes;
  }
  return at;
}

size_t count_code_points(std::string_view text) {
  size_t count = 0;
  for (const char c : text) count += (static_cast<uint8_t>(c) & 0xc0) != 0x80;
  return count;
}

std::string replace_ill_formed(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  while (!text.empty()) {
    const size_t good = well_formed_prefix(text);
    out.append(text.substr(0, good));
    text.remove_prefix(good);
    if (text.empty()) break;
    append_utf8(kReplacementCharacter, out);
    text.remove_prefix(first_code_point(text).len_bytes);
  }
  return out;
}

bool is_incomplete_character(std::string_view text) {
  if (text.empty()) return false;
  const Lead lead = lead_of(static_cast<uint8_t>(text[0]));
  return lead.len > text.size() && accepted_bytes(text, lead) == text.size();
}

}  // namespace forerun::text
