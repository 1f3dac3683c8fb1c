// The case mappings of Python's str: full mappings, which turn one character into several if
// Unicode says so, and treat the final sigma by its neighbours. Pure functions over well-formed
// UTF-8, with tables of Unicode 14.
#pragma once

#include <string>
#include <string_view>

namespace forerun::text {

// Returns the lower case of each character by itself, as tokenizers do: without the final sigma.
std::string lower_case(std::string_view text);

std::string python_lower(std::string_view text);
std::string python_upper(std::string_view text);
std::string python_casefold(std::string_view text);
// Returns title case for a character after an uncased one, lower case after a cased one.
std::string python_title(std::string_view text);
std::string python_capitalize(std::string_view text);
std::string python_swapcase(std::string_view text);

// Return whether some character has case, and all cased characters have this one.
bool python_islower(std::string_view text);
bool python_isupper(std::string_view text);

}  // namespace forerun::text
