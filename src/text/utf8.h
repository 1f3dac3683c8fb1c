// Reads and writes UTF-8. Pure functions; nothing is kept. Ill-formed input is an ordinary case: a
// maximal ill-formed subpart (Unicode 3.9, table 3-7) reads as one U+FFFD.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace forerun::text {

constexpr char32_t kReplacementCharacter = 0xfffd;

struct CodePoint {
  char32_t value = 0;      // U+FFFD if ill-formed
  uint32_t len_bytes = 0;  // 0 only for empty input
  bool well_formed = true;
};

// Returns the first code point of `text`.
CodePoint first_code_point(std::string_view text);

// Returns the last code point of `text`, found by stepping back over continuation bytes.
CodePoint last_code_point(std::string_view text);

void append_utf8(char32_t value, std::string& out);

// Returns the number of leading bytes of `text` that are well-formed UTF-8.
size_t well_formed_prefix(std::string_view text);

inline bool is_well_formed(std::string_view text) {
  return well_formed_prefix(text) == text.size();
}

// Returns the number of code points of well-formed text.
size_t count_code_points(std::string_view text);

// Returns the text with every maximal ill-formed subpart replaced by U+FFFD.
std::string replace_ill_formed(std::string_view text);

// Returns true if `text` is a proper beginning of one well-formed character (more bytes may
// complete it).
bool is_incomplete_character(std::string_view text);

}  // namespace forerun::text
