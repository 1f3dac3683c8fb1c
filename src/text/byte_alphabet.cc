#include "text/byte_alphabet.h"

#include <array>

#include "text/utf8.h"

namespace forerun::text {
namespace {

constexpr bool stands_for_itself(uint32_t byte) {
  return (byte >= 0x21 && byte <= 0x7e) || (byte >= 0xa1 && byte <= 0xac) || byte >= 0xae;
}

struct Alphabet {
  std::array<char32_t, 256> character{};
  std::array<int16_t, 512> byte{};
};

constexpr Alphabet make_alphabet() {
  Alphabet alphabet;
  for (int16_t& byte : alphabet.byte) byte = -1;
  char32_t next = 0x100;
  for (uint32_t byte = 0; byte < 256; ++byte) {
    const char32_t character = stands_for_itself(byte) ? byte : next++;
    alphabet.character[byte] = character;
    alphabet.byte[character] = static_cast<int16_t>(byte);
  }
  return alphabet;
}

constexpr Alphabet kAlphabet = make_alphabet();

}  // namespace

char32_t character_of_byte(uint8_t byte) { return kAlphabet.character[byte]; }

int byte_of_character(char32_t character) {
  return character < kAlphabet.byte.size() ? kAlphabet.byte[character] : -1;
}

std::string to_byte_alphabet(std::string_view bytes) {
  std::string out;
  out.reserve(bytes.size() * 2);
  for (const char c : bytes) append_utf8(character_of_byte(static_cast<uint8_t>(c)), out);
  return out;
}

bool append_from_byte_alphabet(std::string_view token, std::string& out) {
  const size_t before = out.size();
  while (!token.empty()) {
    const CodePoint point = first_code_point(token);
    const int byte = point.well_formed ? byte_of_character(point.value) : -1;
    if (byte < 0) {
      out.resize(before);
      return false;
    }
    out.push_back(static_cast<char>(byte));
    token.remove_prefix(point.len_bytes);
  }
  return true;
}

}  // namespace forerun::text
