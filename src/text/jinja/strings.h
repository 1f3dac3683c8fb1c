// Python's string operations over UTF-8.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace forerun::text::jinja {

// The characters, each as its own view of `text`.
std::vector<std::string_view> characters(std::string_view text);

// Without white space, or without the characters of `chars`, at the chosen ends.
std::string_view stripped(std::string_view text, const std::optional<std::string>& chars, bool left,
                          bool right);

std::string upper(std::string_view text);
std::string lower(std::string_view text);
std::string capitalized(std::string_view text);
// str.title: every run of letters; and the filter's: every word behind white space or -([{<.
std::string titled(std::string_view text);
std::string titled_words(std::string_view text);

// With `fill`, one character, beside it up to `width` characters, at most kMaxWidth.
enum class Align : uint8_t { kLeft, kCenter, kRight };
constexpr int64_t kMaxWidth = 65'536;
std::string padded(std::string_view text, int64_t width, std::string_view fill, Align align);
// str.center, which puts the odd one of what is missing to the left where the width is odd, too.
std::string centered(std::string_view text, int64_t width, std::string_view fill);

// At most `count` times, -1: always. An empty pattern matches before every character and at the
// end.
std::string replaced(std::string_view text, std::string_view pattern, std::string_view with,
                     int64_t count);

// At `separator` (not empty), or at runs of white space without one; at most `count` cuts.
std::vector<std::string> split(std::string_view text, const std::optional<std::string>& separator,
                               int64_t count, bool from_right);

}  // namespace forerun::text::jinja
