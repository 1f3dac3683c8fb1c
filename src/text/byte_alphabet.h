// The byte alphabet of byte-level BPE: each byte value has one printable character, so that any
// bytes can be written as JSON text (GPT-2's table).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace forerun::text {

// Returns the character of a byte: printable Latin-1 characters represent themselves, the other 68
// values use U+0100 onwards in order.
char32_t character_of_byte(uint8_t byte);

// Returns the byte that a character represents, or -1.
int byte_of_character(char32_t character);

// Returns every byte of `bytes` as its character, in UTF-8.
std::string to_byte_alphabet(std::string_view bytes);

// Appends the bytes that `token` represents; returns false, with `out` unchanged, if one of its
// characters represents no byte.
bool append_from_byte_alphabet(std::string_view token, std::string& out);

}  // namespace forerun::text
