// A set of Unicode code points as sorted, disjoint ranges, and its UTF-8 form as ranges of bytes.
//
// Surrogates (U+D800 to U+DFFF) are never members, since well-formed UTF-8 has none. Plain values;
// nothing is shared.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace forerun::grammar {

constexpr uint32_t kLastCodePoint = 0x10ffff;
// The largest number of ranges in a class of a pattern or grammar text: operations on sets take
// time and memory in proportion, and grammars come from untrusted clients.
constexpr size_t kMaxClassRanges = 1000;

struct CodePointRange {
  uint32_t first = 0;
  uint32_t last = 0;  // inclusive
  friend bool operator==(const CodePointRange&, const CodePointRange&) = default;
};

struct ByteRange {
  uint8_t first = 0;
  uint8_t last = 0;  // inclusive
};

class CodePointSet {
 public:
  CodePointSet() = default;
  CodePointSet(uint32_t first, uint32_t last) { add(first, last); }

  // Returns every code point except the surrogates.
  static CodePointSet all() { return CodePointSet(0, kLastCodePoint); }

  // Adds first to last, both included; adds nothing if first > last.
  void add(uint32_t first, uint32_t last);
  void add(const CodePointSet& other);

  CodePointSet complement() const;
  CodePointSet intersection(const CodePointSet& other) const;
  // Returns the members that `other` lacks.
  CodePointSet minus(const CodePointSet& other) const;

  bool contains(uint32_t code_point) const;
  bool empty() const { return ranges_.empty(); }
  const std::vector<CodePointRange>& ranges() const { return ranges_; }

  // Returns the members' UTF-8 encodings, each sequence a product of one to four byte ranges.
  std::vector<std::vector<ByteRange>> utf8_sequences() const;

  friend bool operator==(const CodePointSet&, const CodePointSet&) = default;

 private:
  std::vector<CodePointRange> ranges_;  // ascending, never adjacent
};

}  // namespace forerun::grammar
