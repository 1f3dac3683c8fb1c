#include "sampling/token_counts.h"

namespace forerun {

size_t TokenCounts::slot_of(TokenId token) const {
  const size_t mask = table_.size() - 1;
  size_t slot = (static_cast<uint32_t>(token) * 0x9E3779B1u) & mask;
  while (table_[slot] >= 0 && entries_[static_cast<size_t>(table_[slot])].token != token) {
    slot = (slot + 1) & mask;
  }
  return slot;
}

void TokenCounts::grow() {
  table_.assign(table_.empty() ? 64 : table_.size() * 2, -1);
  entries_.reserve(table_.size() / 2);
  for (size_t index = 0; index < entries_.size(); ++index) {
    table_[slot_of(entries_[index].token)] = static_cast<int32_t>(index);
  }
}

TokenCounts::Entry& TokenCounts::entry_of(TokenId token) {
  if (2 * (entries_.size() + 1) > table_.size()) grow();
  const size_t slot = slot_of(token);
  if (table_[slot] < 0) {
    table_[slot] = static_cast<int32_t>(entries_.size());
    entries_.push_back({token, 0});
  }
  return entries_[static_cast<size_t>(table_[slot])];
}

void TokenCounts::add(TokenId token, bool is_prompt) {
  Entry& entry = entry_of(token);
  if (!is_prompt) ++entry.output_count;
}

void TokenCounts::restore(const Entry& entry) { entry_of(entry.token) = entry; }

const TokenCounts::Entry* TokenCounts::find(TokenId token) const {
  if (table_.empty()) return nullptr;
  const int32_t index = table_[slot_of(token)];
  return index < 0 ? nullptr : &entries_[static_cast<size_t>(index)];
}

}  // namespace forerun
