// The printable stand-ins of byte-level BPE: each byte value has one character, so that any bytes
// can be written as JSON text (GPT-2's table).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace forerun::text {

// The character that stands for a byte: printable Latin-1 stands for itself, the other 68 values
// take U+0100 onwards in order.
char32_t character_of_byte(uint8_t byte);

// The byte a character stands for, or -1.
int byte_of_character(char32_t character);

// Every byte of `bytes` as its character, in UTF-8.
std::string to_byte_alphabet(std::string_view bytes);

// Appends the bytes that `token` stands for; false, with `out` unchanged, if a character of it
// stands for none.
bool append_from_byte_alphabet(std::string_view token, std::string& out);

}  // namespace forerun::text
