// A bounded cache that maps a word's bytes to its token ids. One caller at a time.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace forerun::text {

class WordCache {
 public:
  // Longer words are not cached, since they rarely repeat.
  static constexpr size_t kMaxWordBytes = 48;

  // Returns the ids of a stored word, valid until the next put(); null data() if there is none.
  std::span<const int32_t> find(std::string_view word, uint64_t hash) const {
    if (slots_.empty()) return {};
    const size_t mask = slots_.size() - 1;
    for (size_t at = hash & mask; slots_[at].used; at = (at + 1) & mask) {
      const Slot& slot = slots_[at];
      if (slot.hash == hash && slot.word_len == word.size() &&
          std::string_view(words_).substr(slot.word_offset, slot.word_len) == word) {
        return {ids_.data() + slot.ids_offset, slot.ids_len};
      }
    }
    return {};
  }

  // Stores a word of at most kMaxWordBytes. A full cache is emptied first.
  void put(std::string_view word, uint64_t hash, std::span<const int32_t> ids);

 private:
  struct Slot {
    uint64_t hash = 0;
    uint32_t word_offset = 0;
    uint32_t ids_offset = 0;
    uint16_t word_len = 0;
    uint16_t ids_len = 0;
    bool used = false;
  };

  void grow();

  std::vector<Slot> slots_;  // size is a power of two; at most half of the slots are used
  std::string words_;
  std::vector<int32_t> ids_;
  size_t used_ = 0;
};

}  // namespace forerun::text
