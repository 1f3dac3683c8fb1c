#include "grammar/code_point_set.h"

#include <algorithm>
#include <string>

#include "text/utf8.h"

namespace forerun::grammar {
namespace {

constexpr uint32_t kFirstSurrogate = 0xd800, kLastSurrogate = 0xdfff;

// Appends first to last, split where the length of the encoding changes and until, within a part,
// every byte ranges independently of the others.
void split(uint32_t first, uint32_t last, std::vector<std::vector<ByteRange>>& out) {
  for (const uint32_t end : {0x7fu, 0x7ffu, 0xffffu}) {
    if (first <= end && end < last) {
      split(first, end, out);
      split(end + 1, last, out);
      return;
    }
  }
  if (first > 0x7f) {
    for (int tail = 1; tail <= 3; ++tail) {
      const uint32_t low_bits = (1u << (6 * tail)) - 1;
      if ((first & ~low_bits) == (last & ~low_bits)) continue;
      if ((first & low_bits) != 0) {
        split(first, first | low_bits, out);
        split((first | low_bits) + 1, last, out);
        return;
      }
      if ((last & low_bits) != low_bits) {
        split(first, (last & ~low_bits) - 1, out);
        split(last & ~low_bits, last, out);
        return;
      }
    }
  }
  std::string from, to;
  text::append_utf8(first, from);
  text::append_utf8(last, to);
  std::vector<ByteRange> sequence;
  for (size_t i = 0; i < from.size(); ++i) {
    sequence.push_back({static_cast<uint8_t>(from[i]), static_cast<uint8_t>(to[i])});
  }
  out.push_back(std::move(sequence));
}

}  // namespace

void CodePointSet::add(uint32_t first, uint32_t last) {
  last = std::min(last, kLastCodePoint);
  if (first > last) return;
  if (first <= kLastSurrogate && last >= kFirstSurrogate) {
    if (first < kFirstSurrogate) add(first, kFirstSurrogate - 1);
    if (last > kLastSurrogate) add(kLastSurrogate + 1, last);
    return;
  }
  auto begin = std::find_if(ranges_.begin(), ranges_.end(),
                            [&](const CodePointRange& range) { return range.last + 1 >= first; });
  auto end = begin;
  for (; end != ranges_.end() && end->first <= last + 1; ++end) {
    first = std::min(first, end->first);
    last = std::max(last, end->last);
  }
  begin = ranges_.erase(begin, end);
  ranges_.insert(begin, {first, last});
}

void CodePointSet::add(const CodePointSet& other) {
  for (const CodePointRange& range : other.ranges_) add(range.first, range.last);
}

CodePointSet CodePointSet::complement() const {
  CodePointSet result;
  uint32_t next = 0;
  for (const CodePointRange& range : ranges_) {
    if (range.first > next) result.add(next, range.first - 1);
    next = range.last + 1;
  }
  result.add(next, kLastCodePoint);
  return result;
}

CodePointSet CodePointSet::intersection(const CodePointSet& other) const {
  CodePointSet either = complement();
  either.add(other.complement());
  return either.complement();
}

CodePointSet CodePointSet::minus(const CodePointSet& other) const {
  return intersection(other.complement());
}

bool CodePointSet::contains(uint32_t code_point) const {
  return std::any_of(ranges_.begin(), ranges_.end(), [&](const CodePointRange& range) {
    return range.first <= code_point && code_point <= range.last;
  });
}

std::vector<std::vector<ByteRange>> CodePointSet::utf8_sequences() const {
  std::vector<std::vector<ByteRange>> sequences;
  for (const CodePointRange& range : ranges_) split(range.first, range.last, sequences);
  return sequences;
}

}  // namespace forerun::grammar
