// Makes text that comes from files, models or clients safe to print on a terminal.
#pragma once

#include <string>
#include <string_view>

namespace forerun {

// Returns the whole of `text` with every byte escaped (\x1b) that a terminal would interpret or
// could not show: control characters other than tabs and line breaks (including U+0080 to U+009F
// and those that change the direction of a line), and bytes that are not UTF-8. printable()
// (printable.h) does the same for parts of messages, in one line.
std::string terminal_text(std::string_view text);

}  // namespace forerun
