// Unicode normalization forms and the few character properties that tokenizers need in addition to
// regular expressions. Pure functions over well-formed UTF-8; the tables are of Unicode 14.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace forerun::text {

enum class NormalForm : uint8_t { kNfc, kNfd, kNfkc, kNfkd };

// Returns true if `text` is certainly unchanged by NFC (a cheap scan; false means "must be
// computed").
bool is_certainly_nfc(std::string_view text);

std::string normalize(std::string_view text, NormalForm form);

// Returns whether the character has the property White_Space.
bool is_white_space(char32_t value);

}  // namespace forerun::text
