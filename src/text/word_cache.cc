#include "text/word_cache.h"

namespace forerun::text {
namespace {

constexpr size_t kFirstSlots = 1024;
constexpr size_t kMaxSlots = size_t{1} << 16;  // 1.5 MB of slots and about as much for their data

}  // namespace

void WordCache::grow() {
  if (slots_.size() >= kMaxSlots) {
    slots_.assign(slots_.size(), Slot());
    words_.clear();
    ids_.clear();
    used_ = 0;
    return;
  }
  std::vector<Slot> old(slots_.empty() ? kFirstSlots : slots_.size() * 2);
  old.swap(slots_);
  const size_t mask = slots_.size() - 1;
  for (const Slot& slot : old) {
    if (!slot.used) continue;
    size_t at = slot.hash & mask;
    while (slots_[at].used) at = (at + 1) & mask;
    slots_[at] = slot;
  }
}

void WordCache::put(std::string_view word, uint64_t hash, std::span<const int32_t> ids) {
  if (2 * (used_ + 1) > slots_.size()) grow();
  const size_t mask = slots_.size() - 1;
  size_t at = hash & mask;
  while (slots_[at].used) at = (at + 1) & mask;
  slots_[at] = {hash,
                static_cast<uint32_t>(words_.size()),
                static_cast<uint32_t>(ids_.size()),
                static_cast<uint16_t>(word.size()),
                static_cast<uint16_t>(ids.size()),
                true};
  words_.append(word);
  ids_.insert(ids_.end(), ids.begin(), ids.end());
  ++used_;
}

}  // namespace forerun::text
