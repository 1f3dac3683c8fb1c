// Case as Python's str has it: full mappings, one character to several where Unicode has them, and
// the final sigma by its neighbours. Pure functions over well-formed UTF-8; tables are of Unicode
// 14. (Tokenizers map each character by itself: lower_case() of unicode.h.)
#pragma once

#include <string>
#include <string_view>

namespace forerun::text {

std::string python_lower(std::string_view text);
std::string python_upper(std::string_view text);
std::string python_casefold(std::string_view text);
// A title-case character behind each that has no case, lower case behind each that has.
std::string python_title(std::string_view text);
std::string python_capitalize(std::string_view text);
std::string python_swapcase(std::string_view text);

// Some character has case, and all that have it have this one.
bool python_islower(std::string_view text);
bool python_isupper(std::string_view text);

}  // namespace forerun::text
