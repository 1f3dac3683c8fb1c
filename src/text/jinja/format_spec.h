// How Python shows one value in a text: the specification behind ":" in "{:>5.2f}", and the flags
// of
// "%5.2f", which mean nearly the same.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "forerun/status.h"
#include "text/jinja/value.h"

namespace forerun::text::jinja {

constexpr int64_t kMaxPrecision = 300;

// How one value is shown.
struct Spec {
  std::string fill = " ";
  char align = 0;  // < > ^ =, 0: the kind's own
  char sign = 0;   // + or space, 0: none before positive numbers
  bool alternate = false;
  int64_t width = 0;
  char grouping = 0;  // , or _
  std::optional<int64_t> precision;
  char type = 0;
};

// kInvalidArgument of a format.
Status broken_format(const std::string& message);

// Digits at the front of `text`, taken off it; fails past `most`.
Result<int64_t> take_number(std::string_view& text, int64_t most);

// Python's format(value, spec).
Result<std::string> formatted(const Value& value, std::string_view spec);

// A conversion of "%": its flags are those of `spec`, the letter its type.
Result<std::string> converted(const Value& value, Spec spec);

}  // namespace forerun::text::jinja
