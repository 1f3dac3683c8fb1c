// Numbers from texts, as Python reads them.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "text/jinja/value.h"

namespace forerun::text::jinja {

// The integer that `digits` spell to `base` (2 to 36), without a sign; nothing where one of them is
// no digit of the base, and for more than 4,300 of them.
std::optional<Value> integer_of_digits(std::string_view digits, unsigned base, bool negative);

// Python's int(text, base): white space around it, a sign, 0x, 0o, 0b, underscores between digits.
std::optional<Value> parsed_integer(std::string_view text, int64_t base);

// Python's float(text).
std::optional<double> parsed_real(std::string_view text);

// Python's int(number); nothing for infinities and what is no number.
std::optional<Value> integer_of(double number);

}  // namespace forerun::text::jinja
