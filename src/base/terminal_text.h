// What may go to a terminal of texts that come from files, models' names and clients.
#pragma once

#include <string>
#include <string_view>

namespace forerun {

// All of `text`, with what a terminal would obey, or could not show, escaped byte by byte (\x1b):
// control characters but tabs and line breaks, also those of two bytes (U+0080 to U+009F) and those
// that turn the direction of a line, and bytes that are no UTF-8. printable() (printable.h) does
// the same for parts of messages, in one line.
std::string terminal_text(std::string_view text);

}  // namespace forerun
