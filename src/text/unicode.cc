#include "text/unicode.h"

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/packed_integers.h"
#include "text/utf8.h"

namespace forerun::text {
namespace {

struct Decomposition {
  char32_t from;
  uint16_t canonical_offset;  // into NormalizationTables::expansions
  uint8_t canonical_len;      // 0: no canonical decomposition
  uint16_t compatible_offset;
  uint8_t compatible_len;
};
struct Composition {
  char32_t first, second, composite;
};
struct ClassRange {
  char32_t low, high;
  uint8_t combining_class;
};
struct CodePointRange {
  char32_t low, high;
};

#include "text/unicode_tables.inc"

// The unpacked normalization tables.
struct NormalizationTables {
  std::vector<Decomposition> decompositions;  // sorted by `from`
  std::u32string expansions;
  std::vector<Composition> compositions;  // sorted by `first` and `second`
};

std::vector<int64_t> unpacked(std::string_view table) {
  return unpack_integers(table, INT32_MAX).value();
}

// Unpacks distances, each from the previous number.
std::vector<char32_t> unpacked_steps(std::string_view table) {
  std::vector<char32_t> points;
  char32_t point = 0;
  for (const int64_t step : unpacked(table)) points.push_back(point += static_cast<char32_t>(step));
  return points;
}

// Unpacks distances with their sign in the lowest bit.
std::vector<char32_t> unpacked_signed_steps(std::string_view table) {
  std::vector<char32_t> points;
  int64_t point = 0;
  for (const int64_t step : unpacked(table)) {
    point += step % 2 == 0 ? step / 2 : -(step / 2) - 1;
    points.push_back(static_cast<char32_t>(point));
  }
  return points;
}

NormalizationTables unpack_tables() {
  NormalizationTables tables;
  const std::vector<char32_t> expansions = unpacked_signed_steps(kExpansions);
  tables.expansions.assign(expansions.begin(), expansions.end());
  const std::vector<char32_t> decomposed = unpacked_steps(kDecomposed);
  const std::vector<int64_t> lens = unpacked(kDecomposedLens);
  uint16_t offset = 0;
  for (size_t index = 0; index < decomposed.size(); ++index) {
    Decomposition entry{};
    entry.from = decomposed[index];
    entry.compatible_len = static_cast<uint8_t>(lens[index] / 8);
    const int64_t canonical = lens[index] % 8;
    entry.canonical_offset = offset;
    if (canonical > 1) offset = static_cast<uint16_t>(offset + canonical - 1);
    entry.compatible_offset = offset;
    entry.canonical_len = canonical == 1
                              ? entry.compatible_len
                              : static_cast<uint8_t>(std::max<int64_t>(0, canonical - 1));
    offset = static_cast<uint16_t>(offset + entry.compatible_len);
    tables.decompositions.push_back(entry);
  }
  const std::vector<char32_t> firsts = unpacked_steps(kFirsts);
  const std::vector<char32_t> seconds = unpacked_signed_steps(kSeconds);
  const std::vector<char32_t> composites = unpacked_signed_steps(kComposites);
  for (size_t index = 0; index < firsts.size(); ++index) {
    tables.compositions.push_back({firsts[index], seconds[index], composites[index]});
  }
  return tables;
}

// Returns the tables, which are unpacked when a text is first normalized, in a tenth of a
// millisecond.
const NormalizationTables& normalization_tables() {
  static const NormalizationTables tables = unpack_tables();
  return tables;
}

constexpr char32_t kHangulS = 0xac00, kHangulL = 0x1100, kHangulV = 0x1161, kHangulT = 0x11a7;
constexpr char32_t kHangulLCount = 19, kHangulVCount = 21, kHangulTCount = 28;
constexpr char32_t kHangulSCount = kHangulLCount * kHangulVCount * kHangulTCount;

// Returns the entry of a table of disjoint sorted ranges that contains `value`, or null.
template <class Range, size_t n>
const Range* find_range(const Range (&table)[n], char32_t value) {
  const Range* found =
      std::lower_bound(std::begin(table), std::end(table), value,
                       [](const Range& range, char32_t wanted) { return range.high < wanted; });
  return found != std::end(table) && found->low <= value ? found : nullptr;
}

uint8_t combining_class(char32_t value) {
  if (value < 0x300) return 0;
  const ClassRange* range = find_range(kCombiningClasses, value);
  return range ? range->combining_class : uint8_t{0};
}

void append_decomposed(const NormalizationTables& tables, char32_t value, bool compatible,
                       std::u32string& out) {
  if (value < 0xa0) {
    out.push_back(value);
    return;
  }
  if (value >= kHangulS && value < kHangulS + kHangulSCount) {
    const char32_t index = value - kHangulS;
    out.push_back(kHangulL + index / (kHangulVCount * kHangulTCount));
    out.push_back(kHangulV + index % (kHangulVCount * kHangulTCount) / kHangulTCount);
    if (index % kHangulTCount != 0) out.push_back(kHangulT + index % kHangulTCount);
    return;
  }
  const auto entry =
      std::lower_bound(tables.decompositions.begin(), tables.decompositions.end(), value,
                       [](const Decomposition& one, char32_t wanted) { return one.from < wanted; });
  const bool found = entry != tables.decompositions.end() && entry->from == value;
  if (!found || (!compatible && entry->canonical_len == 0)) {
    out.push_back(value);
  } else if (compatible) {
    out.append(tables.expansions, entry->compatible_offset, entry->compatible_len);
  } else {
    out.append(tables.expansions, entry->canonical_offset, entry->canonical_len);
  }
}

// Canonical ordering: sorts runs of combining marks by class, stably.
void order_marks(std::u32string& text) {
  for (size_t begin = 0; begin < text.size(); ++begin) {
    if (combining_class(text[begin]) == 0) continue;
    size_t end = begin;
    while (end < text.size() && combining_class(text[end]) != 0) ++end;
    std::stable_sort(text.begin() + static_cast<std::ptrdiff_t>(begin),
                     text.begin() + static_cast<std::ptrdiff_t>(end), [](char32_t a, char32_t b) {
                       return combining_class(a) < combining_class(b);
                     });
    begin = end - 1;
  }
}

// Returns the primary composite of two characters, or 0.
char32_t composite_of(const NormalizationTables& tables, char32_t first, char32_t second) {
  if (first >= kHangulL && first < kHangulL + kHangulLCount && second >= kHangulV &&
      second < kHangulV + kHangulVCount) {
    return kHangulS + ((first - kHangulL) * kHangulVCount + (second - kHangulV)) * kHangulTCount;
  }
  if (first >= kHangulS && first < kHangulS + kHangulSCount &&
      (first - kHangulS) % kHangulTCount == 0 && second > kHangulT &&
      second < kHangulT + kHangulTCount) {
    return first + (second - kHangulT);
  }
  const auto less = [](const Composition& entry, const std::pair<char32_t, char32_t>& wanted) {
    return std::pair(entry.first, entry.second) < wanted;
  };
  const auto found = std::lower_bound(tables.compositions.begin(), tables.compositions.end(),
                                      std::pair(first, second), less);
  if (found == tables.compositions.end() || found->first != first || found->second != second) {
    return 0;
  }
  return found->composite;
}

// Canonical composition in place (Unicode 3.11, D117) of canonically ordered text.
void compose(const NormalizationTables& tables, std::u32string& text) {
  size_t out = 0;
  size_t starter = std::u32string::npos;
  int last_class = -1;  // class of the last kept character after the starter; -1: none
  for (size_t at = 0; at < text.size(); ++at) {
    const char32_t value = text[at];
    const int value_class = combining_class(value);
    if (starter != std::u32string::npos && last_class < value_class) {
      if (const char32_t composite = composite_of(tables, text[starter], value); composite != 0) {
        text[starter] = composite;
        continue;
      }
    }
    if (value_class == 0) {
      starter = out;
      last_class = -1;
    } else {
      last_class = value_class;
    }
    text[out++] = value;
  }
  text.resize(out);
}

}  // namespace

bool is_certainly_nfc(std::string_view text) {
  for (size_t at = 0; at < text.size();) {
    const uint8_t byte = static_cast<uint8_t>(text[at]);
    if (byte < 0xcc) {  // below U+0300 no character decomposes again or combines
      at += byte < 0x80 ? 1 : 2;
      continue;
    }
    const CodePoint point = first_code_point(text.substr(at));
    if (find_range(kMayChangeUnderNfc, point.value)) return false;
    at += point.len_bytes;
  }
  return true;
}

std::string normalize(std::string_view text, NormalForm form) {
  const bool compatible = form == NormalForm::kNfkc || form == NormalForm::kNfkd;
  const NormalizationTables& tables = normalization_tables();
  std::u32string points;
  points.reserve(text.size());
  while (!text.empty()) {
    const CodePoint point = first_code_point(text);
    append_decomposed(tables, point.value, compatible, points);
    text.remove_prefix(point.len_bytes);
  }
  order_marks(points);
  if (form == NormalForm::kNfc || form == NormalForm::kNfkc) compose(tables, points);
  std::string out;
  out.reserve(points.size());
  for (const char32_t point : points) append_utf8(point, out);
  return out;
}

bool is_white_space(char32_t value) {
  switch (value) {
    case 0x20:
    case 0x85:
    case 0xa0:
    case 0x1680:
    case 0x2028:
    case 0x2029:
    case 0x202f:
    case 0x205f:
    case 0x3000:
      return true;
    default:
      return (value >= 9 && value <= 13) || (value >= 0x2000 && value <= 0x200a);
  }
}

}  // namespace forerun::text
