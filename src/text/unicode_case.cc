#include "text/unicode_case.h"

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <span>

#include "text/utf8.h"

namespace forerun::text {
namespace {

// Tables begin with U+0080.
struct CaseRun {
  char32_t low, high;
  uint8_t stride;
};
struct CaseShift {
  char32_t low, high;
  uint8_t stride;
  int32_t distance;
};
struct CaseExpansion {
  char32_t from;
  char32_t to[3];  // zeros after the last character
};

#include "text/case_tables.inc"

// Runs are disjoint and in order.
template <class Run>
const Run* find_run(std::span<const Run> table, char32_t value) {
  const auto found =
      std::lower_bound(table.begin(), table.end(), value,
                       [](const Run& run, char32_t wanted) { return run.high < wanted; });
  const bool holds =
      found != table.end() && found->low <= value && (value - found->low) % found->stride == 0;
  return holds ? &*found : nullptr;
}

struct Mapping {
  std::span<const CaseShift> shifts;
  std::span<const CaseExpansion> expansions;
  char first = 0, last = 0;  // the ASCII letters that the mapping changes

  void append(char32_t value, std::string& out) const {
    if (value < 0x80) {
      const char c = static_cast<char>(value);
      out.push_back(c >= first && c <= last ? static_cast<char>(c ^ 0x20) : c);
      return;
    }
    const auto expansion = std::lower_bound(
        expansions.begin(), expansions.end(), value,
        [](const CaseExpansion& entry, char32_t wanted) { return entry.from < wanted; });
    if (expansion != expansions.end() && expansion->from == value) {
      for (const char32_t part : expansion->to) {
        if (part != 0) append_utf8(part, out);
      }
      return;
    }
    const CaseShift* const shift = find_run(shifts, value);
    const int32_t distance = shift == nullptr ? 0 : shift->distance;
    append_utf8(static_cast<char32_t>(static_cast<int32_t>(value) + distance), out);
  }
};

const Mapping kToLower{kLower, kLowerExpansions, 'A', 'Z'};
const Mapping kToUpper{kUpper, kUpperExpansions, 'a', 'z'};
const Mapping kToTitle{kTitle, kTitleExpansions, 'a', 'z'};
const Mapping kToFolded{kFolded, kFoldedExpansions, 'A', 'Z'};

bool is_ascii_letter(char32_t value) {
  return (value >= 'a' && value <= 'z') || (value >= 'A' && value <= 'Z');
}
bool is_cased(char32_t value) {
  return value < 0x80 ? is_ascii_letter(value) : find_run<CaseRun>(kCased, value) != nullptr;
}
bool is_lowercase(char32_t value) {
  if (value < 0x80) return value >= 'a' && value <= 'z';
  return find_run<CaseRun>(kLowercase, value) != nullptr;
}
bool is_uppercase(char32_t value) {
  if (value < 0x80) return value >= 'A' && value <= 'Z';
  return find_run<CaseRun>(kUppercase, value) != nullptr;
}
bool is_ignorable(char32_t value) {
  if (value < 0x80)
    return std::string_view("'.:^`").find(static_cast<char>(value)) != std::string_view::npos;
  return find_run<CaseRun>(kIgnorable, value) != nullptr;
}

// A character of a text, and its position: a capital sigma's lower case depends on its neighbours.
struct Place {
  std::string_view text;
  size_t begin = 0;
  CodePoint point;

  bool is_final() const {
    std::string_view before = text.substr(0, begin);
    while (!before.empty()) {
      const CodePoint last = last_code_point(before);
      if (!is_ignorable(last.value)) {
        if (!is_cased(last.value)) return false;
        break;
      }
      before.remove_suffix(last.len_bytes);
    }
    if (before.empty()) return false;
    std::string_view behind = text.substr(begin + point.len_bytes);
    while (!behind.empty()) {
      const CodePoint next = first_code_point(behind);
      if (!is_ignorable(next.value)) return !is_cased(next.value);
      behind.remove_prefix(next.len_bytes);
    }
    return true;
  }
  void append_lower(std::string& out) const {
    constexpr char32_t kCapitalSigma = 0x3a3, kFinalSigma = 0x3c2;
    if (point.value == kCapitalSigma && is_final()) return append_utf8(kFinalSigma, out);
    kToLower.append(point.value, out);
  }
};

template <class Visit>
void for_each_character(std::string_view text, const Visit& visit) {
  for (size_t begin = 0; begin < text.size();) {
    const Place place{text, begin, first_code_point(text.substr(begin))};
    visit(place);
    begin += place.point.len_bytes;
  }
}

template <class Append>
std::string mapped(std::string_view text, const Append& append) {
  std::string out;
  out.reserve(text.size());
  for_each_character(text, [&](const Place& place) { append(place, out); });
  return out;
}

// Returns whether some character is `wanted` and every cased character is.
bool is_all(std::string_view text, bool (*wanted)(char32_t)) {
  bool found = false, other = false;
  for_each_character(text, [&](const Place& place) {
    const char32_t value = place.point.value;
    // A title-case letter is cased and maps to both others.
    const bool has_case = is_lowercase(value) || is_uppercase(value) || is_cased(value);
    found = found || wanted(value);
    other = other || (has_case && !wanted(value));
  });
  return found && !other;
}

}  // namespace

std::string lower_case(std::string_view text) {
  return mapped(
      text, [](const Place& place, std::string& out) { kToLower.append(place.point.value, out); });
}

std::string python_lower(std::string_view text) {
  return mapped(text, [](const Place& place, std::string& out) { place.append_lower(out); });
}

std::string python_upper(std::string_view text) {
  return mapped(
      text, [](const Place& place, std::string& out) { kToUpper.append(place.point.value, out); });
}

std::string python_casefold(std::string_view text) {
  return mapped(
      text, [](const Place& place, std::string& out) { kToFolded.append(place.point.value, out); });
}

std::string python_title(std::string_view text) {
  bool is_behind_case = false;
  return mapped(text, [&](const Place& place, std::string& out) {
    if (is_behind_case) {
      place.append_lower(out);
    } else {
      kToTitle.append(place.point.value, out);
    }
    is_behind_case = is_cased(place.point.value);
  });
}

std::string python_capitalize(std::string_view text) {
  return mapped(text, [](const Place& place, std::string& out) {
    if (place.begin > 0) return place.append_lower(out);
    kToTitle.append(place.point.value, out);
  });
}

std::string python_swapcase(std::string_view text) {
  return mapped(text, [](const Place& place, std::string& out) {
    const char32_t value = place.point.value;
    if (is_uppercase(value)) return place.append_lower(out);
    if (is_lowercase(value)) return kToUpper.append(value, out);
    append_utf8(value, out);
  });
}

bool python_islower(std::string_view text) { return is_all(text, is_lowercase); }
bool python_isupper(std::string_view text) { return is_all(text, is_uppercase); }

}  // namespace forerun::text
