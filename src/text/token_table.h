// A two-way table of token texts and ids: one arena of bytes, spans by id, and an open-addressing
// index. Filled once, then const and thread-safe.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace forerun::text {

class TokenTable {
 public:
  enum class Inserted : uint8_t { kNew, kSame, kIdTaken, kTextTaken };

  void reserve(size_t tokens, size_t bytes);

  // Adds id -> text and text -> id. kSame: the table already had this pair. kIdTaken and kTextTaken
  // leave the table unchanged.
  Inserted insert(std::string_view text, int32_t id);

  // Returns -1 if absent.
  int32_t find(std::string_view text) const;

  // Returns a token's text, valid as long as the table; empty if the id has no token.
  std::string_view text(int32_t id) const {
    if (!has(id)) return {};
    const Span& span = spans_[static_cast<size_t>(id)];
    return std::string_view(bytes_).substr(span.offset, span.len_bytes);
  }
  bool has(int32_t id) const {
    return id >= 0 && static_cast<size_t>(id) < spans_.size() &&
           spans_[static_cast<size_t>(id)].offset != kAbsent;
  }

  // Returns the highest id + 1.
  int32_t end_id() const { return static_cast<int32_t>(spans_.size()); }

 private:
  static constexpr uint32_t kAbsent = UINT32_MAX;
  struct Span {
    uint32_t offset = kAbsent;
    uint32_t len_bytes = 0;
  };

  void grow(size_t slots);

  std::string bytes_;
  std::vector<Span> spans_;
  std::vector<int32_t> slots_;  // ids, -1: empty; size is a power of two, at most half full
  size_t count_ = 0;
};

}  // namespace forerun::text
