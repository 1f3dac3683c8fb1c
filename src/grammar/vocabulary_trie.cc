#include "grammar/vocabulary_trie.h"

#include <algorithm>
#include <array>
#include <limits>
#include <optional>

namespace forerun::grammar {

uint32_t byte_class(uint8_t byte) {
  static const std::array<uint8_t, 256> kClasses = [] {
    // Each class begins at one of these bytes.
    constexpr std::string_view kFirst("\0 !\"#'(,-./0:;AG[\\]^_`ag{|}~\x7f\x80", 29);
    std::array<uint8_t, 256> classes{};
    for (size_t c = 0; c < kFirst.size(); ++c) {
      for (size_t b = static_cast<uint8_t>(kFirst[c]); b < 256; ++b) {
        classes[b] = static_cast<uint8_t>(c);
      }
    }
    return classes;
  }();
  return kClasses[byte];
}

ByteTrie::ByteTrie(std::vector<Entry> entries) {
  std::erase_if(entries, [](const Entry& entry) {
    return entry.first.empty() || entry.first.size() > std::numeric_limits<uint16_t>::max();
  });
  std::sort(entries.begin(), entries.end());
  std::vector<uint32_t> path;  // nodes of the string so far, one per byte
  const auto leave_to = [&](size_t depth) {
    for (; path.size() > depth; path.pop_back()) {
      const Node& left = nodes_[path.back()];
      nodes_[path.back()].end = static_cast<uint32_t>(nodes_.size());
      if (path.size() < 2) continue;
      nodes_[path[path.size() - 2]].classes_below |=
          left.classes_below | 1u << byte_class(left.byte);
    }
  };
  std::string_view previous;
  for (const auto& [bytes, id] : entries) {
    const size_t common = static_cast<size_t>(
        std::mismatch(previous.begin(), previous.end(), bytes.begin(), bytes.end()).first -
        previous.begin());
    leave_to(common);
    for (size_t depth = common; depth < bytes.size(); ++depth) {
      path.push_back(static_cast<uint32_t>(nodes_.size()));
      Node node;
      node.byte = static_cast<uint8_t>(bytes[depth]);
      node.depth = static_cast<uint16_t>(depth + 1);
      node.first_id = static_cast<uint32_t>(ids_.size());
      nodes_.push_back(node);
    }
    Node& last = nodes_[path.back()];
    if (last.id_count < std::numeric_limits<uint16_t>::max()) {
      ++last.id_count;
      ids_.push_back(id);
    }
    max_len_bytes_ = std::max(max_len_bytes_, bytes.size());
    previous = bytes;
  }
  leave_to(0);
}

VocabularyTrie::VocabularyTrie(const Tokenizer& tokenizer)
    : tokens_(static_cast<size_t>(tokenizer.vocab_size())) {
  for (int32_t id = 0; id < tokenizer.vocab_size(); ++id) {
    if (tokenizer.is_special(id)) continue;
    if (std::optional<std::string> bytes = tokenizer.token_bytes(id)) {
      tokens_[static_cast<size_t>(id)] = *std::move(bytes);
    }
  }
  build();
}

VocabularyTrie::VocabularyTrie(std::span<const std::string> tokens)
    : tokens_(tokens.begin(), tokens.end()) {
  build();
}

void VocabularyTrie::build() {
  std::vector<ByteTrie::Entry> entries;
  for (size_t id = 0; id < tokens_.size(); ++id) {
    if (!tokens_[id].empty()) entries.emplace_back(tokens_[id], static_cast<int32_t>(id));
  }
  trie_ = ByteTrie(std::move(entries));
}

}  // namespace forerun::grammar
