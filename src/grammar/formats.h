// JSON Schema's `format` as patterns.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace forerun::grammar {

// Returns the anchored pattern (pattern.h) of a format; nothing for unknown formats, which assert
// nothing. Each pattern accepts a subset of the format's RFC: dates are existing days of years 1000
// to 9999, there are no leap seconds, mail addresses have no quotes or comments, regular
// expressions have groups up to three deep and no back-references.
std::optional<std::string> pattern_of_format(std::string_view format);

}  // namespace forerun::grammar
