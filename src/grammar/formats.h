// JSON Schema's `format` as patterns.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace forerun::grammar {

// The anchored pattern (pattern.h) of a format; nothing for formats that Forerun does not know,
// which say nothing. Each is a subset of what the format's RFC allows: dates are of years 1000 to
// 9999 and exist, there are no leap seconds, mail addresses are without quotes or comments, regular
// expressions have groups three deep and no back-references.
std::optional<std::string> pattern_of_format(std::string_view format);

}  // namespace forerun::grammar
