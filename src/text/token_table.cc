#include "text/token_table.h"

#include <bit>

#include "text/hash_bytes.h"

namespace forerun::text {

void TokenTable::reserve(size_t tokens, size_t bytes) {
  bytes_.reserve(bytes);
  spans_.reserve(tokens);
  const size_t slots = std::bit_ceil(2 * tokens + 16);
  if (slots > slots_.size()) grow(slots);
}

void TokenTable::grow(size_t slots) {
  std::vector<int32_t> old(slots, -1);
  old.swap(slots_);
  const size_t mask = slots - 1;
  for (const int32_t id : old) {
    if (id < 0) continue;
    size_t at = hash_bytes(text(id)) & mask;
    while (slots_[at] >= 0) at = (at + 1) & mask;
    slots_[at] = id;
  }
}

TokenTable::Inserted TokenTable::insert(std::string_view token, int32_t id) {
  if (const int32_t known = find(token); known >= 0) {
    return known == id ? Inserted::kSame : Inserted::kTextTaken;
  }
  if (has(id)) return Inserted::kIdTaken;
  if (2 * (count_ + 1) > slots_.size()) grow(std::bit_ceil(4 * (count_ + 8)));
  if (static_cast<size_t>(id) >= spans_.size()) spans_.resize(static_cast<size_t>(id) + 1);
  spans_[static_cast<size_t>(id)] = {static_cast<uint32_t>(bytes_.size()),
                                     static_cast<uint32_t>(token.size())};
  bytes_.append(token);
  const size_t mask = slots_.size() - 1;
  size_t at = hash_bytes(token) & mask;
  while (slots_[at] >= 0) at = (at + 1) & mask;
  slots_[at] = id;
  ++count_;
  return Inserted::kNew;
}

int32_t TokenTable::find(std::string_view token) const {
  if (slots_.empty()) return -1;
  const size_t mask = slots_.size() - 1;
  for (size_t at = hash_bytes(token) & mask; slots_[at] >= 0; at = (at + 1) & mask) {
    if (text(slots_[at]) == token) return slots_[at];
  }
  return -1;
}

}  // namespace forerun::text
