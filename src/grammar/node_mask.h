// NodeMask: what the tokens of a vocabulary do from one node of a grammar, whatever is on its
// stack. The expensive part of a mask, computed once a node and used by every state that is there.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "grammar/program.h"
#include "grammar/vocabulary_trie.h"

namespace forerun::grammar {

struct NodeMask {
  // Tokens that are accepted whatever the node's rule returns to: one bit a token, or their ids.
  bool dense = false;
  std::vector<uint32_t> bits;
  std::vector<int32_t> ids;
  // The others that may be accepted: after what is cut off here the rule is over, and the rest must
  // be accepted where it returns to. By rests, each with the ids of its tokens.
  ByteTrie rests;

  size_t size_bytes() const {
    return sizeof(NodeMask) + bits.size() * 4 + ids.size() * 4 + rests.size_bytes();
  }
};

// For a place at `node` with `rounds` (frame.h). Walks the whole trie: up to some milliseconds for
// a node that reads nearly everything. Uses this thread's walker.
NodeMask find_node_mask(const Program& program, uint32_t node, uint32_t rounds,
                        const VocabularyTrie& vocabulary);

}  // namespace forerun::grammar
