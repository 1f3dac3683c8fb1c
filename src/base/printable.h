// Makes text from files and clients safe to quote in a message of one line.
#pragma once

#include <string>
#include <string_view>

namespace forerun {

// Returns `text` with control characters and quotes escaped, cut after about 120 bytes at a
// boundary of UTF-8 characters.
std::string printable(std::string_view text);
// Returns the same in double quotes.
std::string in_quotes(std::string_view text);

}  // namespace forerun
