// Makes text from files and clients safe to quote in a message of one line.
#pragma once

#include <string>
#include <string_view>

namespace forerun {

// Control characters and quotes escaped, cut after about 120 bytes, not within a character of
// UTF-8.
std::string printable(std::string_view text);
// The same in double quotes.
std::string in_quotes(std::string_view text);

}  // namespace forerun
