#include "text/jinja/strings.h"

#include <algorithm>

#include "text/unicode.h"
#include "text/utf8.h"

namespace forerun::text::jinja {
namespace {

// Python's str.isspace adds the four information separators.
bool is_python_space(char32_t c) { return is_white_space(c) || (c >= 0x1c && c <= 0x1f); }

bool in_set(std::string_view character, char32_t value, const std::optional<std::string>& chars) {
  return chars ? chars->find(character) != std::string::npos : is_python_space(value);
}

bool is_cased(std::string_view character) {
  return upper_case(character) != character || lower_case(character) != character;
}

}  // namespace

std::vector<std::string_view> characters(std::string_view text) {
  std::vector<std::string_view> out;
  while (!text.empty()) {
    const uint32_t len = first_code_point(text).len_bytes;
    out.push_back(text.substr(0, len));
    text.remove_prefix(len);
  }
  return out;
}

std::string_view stripped(std::string_view text, const std::optional<std::string>& chars, bool left,
                          bool right) {
  while (left && !text.empty()) {
    const CodePoint point = first_code_point(text);
    if (!in_set(text.substr(0, point.len_bytes), point.value, chars)) break;
    text.remove_prefix(point.len_bytes);
  }
  while (right && !text.empty()) {
    const CodePoint point = last_code_point(text);
    if (!in_set(text.substr(text.size() - point.len_bytes), point.value, chars)) break;
    text.remove_suffix(point.len_bytes);
  }
  return text;
}

std::string upper(std::string_view text) { return upper_case(text); }
std::string lower(std::string_view text) { return lower_case(text); }

std::string capitalized(std::string_view text) {
  if (text.empty()) return "";
  const uint32_t len = first_code_point(text).len_bytes;
  return upper_case(text.substr(0, len)) + lower_case(text.substr(len));
}

std::string titled(std::string_view text) {
  std::string out;
  bool within_word = false;
  for (const std::string_view character : characters(text)) {
    out += within_word ? lower_case(character) : upper_case(character);
    within_word = is_cased(character);
  }
  return out;
}

std::string titled_words(std::string_view text) {
  std::string out;
  bool within_word = false;
  for (const std::string_view character : characters(text)) {
    out += within_word ? lower_case(character) : upper_case(character);
    const char32_t value = first_code_point(character).value;
    within_word = !is_python_space(value) &&
                  (value >= 0x80 || std::string_view("-({[<").find(character) == std::string::npos);
  }
  return out;
}

std::string padded(std::string_view text, int64_t width, std::string_view fill, Align align) {
  const int64_t missing =
      std::min(width, kMaxWidth) - static_cast<int64_t>(count_code_points(text));
  if (missing <= 0) return std::string(text);
  const int64_t left = align == Align::kLeft ? 0 : align == Align::kRight ? missing : missing / 2;
  std::string out;
  for (int64_t i = 0; i < left; ++i) out += fill;
  out += text;
  for (int64_t i = left; i < missing; ++i) out += fill;
  return out;
}

std::string centered(std::string_view text, int64_t width, std::string_view fill) {
  const int64_t missing =
      std::min(width, kMaxWidth) - static_cast<int64_t>(count_code_points(text));
  if ((missing & width & 1) == 0 || missing <= 0) return padded(text, width, fill, Align::kCenter);
  return std::string(fill) + padded(text, width - 1, fill, Align::kCenter);
}

std::string replaced(std::string_view text, std::string_view pattern, std::string_view with,
                     int64_t count) {
  std::string out;
  if (pattern.empty()) {
    for (const std::string_view character : characters(text)) {
      if (count != 0) out.append(with);
      if (count > 0) --count;
      out.append(character);
    }
    if (count != 0) out.append(with);
    return out;
  }
  size_t from = 0;
  for (size_t found = text.find(pattern); found != std::string_view::npos && count != 0;
       found = text.find(pattern, from)) {
    out.append(text, from, found - from);
    out.append(with);
    from = found + pattern.size();
    if (count > 0) --count;
  }
  out.append(text, from);
  return out;
}

namespace {

std::vector<std::string> split_at_space(std::string_view text, int64_t count, bool from_right) {
  std::vector<std::string> out;
  text = stripped(text, std::nullopt, true, true);
  while (!text.empty()) {
    if (count == 0) {
      out.emplace_back(text);
      break;
    }
    if (count > 0) --count;
    size_t cut = from_right ? text.size() : 0;
    while (from_right ? cut > 0 : cut < text.size()) {
      const CodePoint point =
          from_right ? last_code_point(text.substr(0, cut)) : first_code_point(text.substr(cut));
      if (is_python_space(point.value)) break;
      cut = from_right ? cut - point.len_bytes : cut + point.len_bytes;
    }
    if (from_right) {
      out.emplace_back(text.substr(cut));
      text = stripped(text.substr(0, cut), std::nullopt, false, true);
    } else {
      out.emplace_back(text.substr(0, cut));
      text = stripped(text.substr(cut), std::nullopt, true, false);
    }
  }
  if (from_right) std::reverse(out.begin(), out.end());
  return out;
}

}  // namespace

std::vector<std::string> split(std::string_view text, const std::optional<std::string>& separator,
                               int64_t count, bool from_right) {
  if (!separator) return split_at_space(text, count, from_right);
  std::vector<std::string> out;
  while (count != 0) {
    const size_t found = from_right ? text.rfind(*separator) : text.find(*separator);
    if (found == std::string_view::npos) break;
    const std::string_view behind = text.substr(found + separator->size());
    out.emplace_back(from_right ? behind : text.substr(0, found));
    text = from_right ? text.substr(0, found) : behind;
    if (count > 0) --count;
  }
  out.emplace_back(text);
  if (from_right) std::reverse(out.begin(), out.end());
  return out;
}

}  // namespace forerun::text::jinja
