// VocabularyTrie: a vocabulary's tokens as a trie of their bytes, flattened in depth-first order.
// Built once per tokenizer, shared by all grammars.
//
// Immutable and thread-safe. Excludes, so that masks never allow them, special tokens (a reply's
// text must not become a control token, and an end token is not text), ids without a token, and
// tokens without bytes (they could be emitted forever).
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "text/tokenizer.h"

namespace forerun::grammar {

// Returns the group of a byte, 0 to 31. Character classes in grammars mostly consist of whole
// groups: controls, each usual punctuation mark, digits, a to f, g to z, ..., all beyond ASCII.
uint32_t byte_class(uint8_t byte);

// Byte strings with ids; a string may have several ids.
class ByteTrie {
 public:
  struct Node {
    uint32_t end = 0;            // the first node that is not below this one
    uint32_t classes_below = 0;  // one bit per byte_class() of the bytes below, `byte` excluded
    uint32_t first_id = 0;       // ids of the nodes below follow those of the string that ends here
    uint16_t id_count = 0;       // number of ids of the string that ends here
    uint16_t depth = 0;          // number of bytes including `byte`
    uint8_t byte = 0;
  };
  using Entry = std::pair<std::string, int32_t>;

  ByteTrie() = default;
  // Takes strings of 1 to 65,535 bytes and skips others.
  explicit ByteTrie(std::vector<Entry> entries);

  const std::vector<Node>& nodes() const { return nodes_; }
  std::span<const int32_t> ids(const Node& node) const {
    return std::span(ids_).subspan(node.first_id, node.id_count);
  }
  // Returns the ids of the strings that end here or below.
  std::span<const int32_t> ids_from(const Node& node) const {
    const size_t last = node.end < nodes_.size() ? nodes_[node.end].first_id : ids_.size();
    return std::span(ids_).subspan(node.first_id, last - node.first_id);
  }
  bool empty() const { return nodes_.empty(); }
  size_t max_len_bytes() const { return max_len_bytes_; }
  size_t size_bytes() const { return nodes_.size() * sizeof(Node) + ids_.size() * sizeof(int32_t); }

 private:
  std::vector<Node> nodes_;
  std::vector<int32_t> ids_;
  size_t max_len_bytes_ = 0;
};

class VocabularyTrie {
 public:
  explicit VocabularyTrie(const Tokenizer& tokenizer);
  // tokens[id] has the token's bytes; empty for excluded ids.
  explicit VocabularyTrie(std::span<const std::string> tokens);

  // Returns the highest id + 1, which is the number of bits of a mask. A model's rows may be
  // longer; ids beyond are never allowed.
  int32_t vocab_size() const { return static_cast<int32_t>(tokens_.size()); }
  size_t mask_words() const { return (tokens_.size() + 31) / 32; }
  // Returns an empty text for excluded ids.
  std::string_view token(int32_t id) const { return tokens_[static_cast<size_t>(id)]; }
  const ByteTrie& trie() const { return trie_; }

 private:
  void build();

  std::vector<std::string> tokens_;
  ByteTrie trie_;
};

}  // namespace forerun::grammar
