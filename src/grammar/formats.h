// JSON Schema's `format` as patterns.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace forerun::grammar {

// The anchored pattern (pattern.h) of a format; nothing for formats that Forerun does not know.
// Each is a subset of what the format's RFC allows: dates are of years 1000 to 9999 and exist,
// there are no leap seconds, mail addresses are plain ASCII without quotes or comments.
std::optional<std::string> pattern_of_format(std::string_view format);

// The known formats, for messages.
std::string known_formats();

}  // namespace forerun::grammar
