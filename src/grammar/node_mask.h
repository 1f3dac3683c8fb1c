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
  uint64_t steps = 0;     // a walker's steps (walker.h) that finding it took
  bool given_up = false;  // making it stopped at the limit, and nothing else is filled
  // Tokens that are accepted whatever the node's rule returns to: one bit a token, or their ids.
  bool dense = false;
  std::vector<uint32_t> bits;
  std::vector<int32_t> ids;
  // Tokens of which a first part ends the rule, so that the rest must be accepted where the rule
  // returns to: these rests, each with the ids of its tokens, or, where `by_rounds`, with indices
  // into `rest_rounds`.
  ByteTrie rests;

  // In a rule that counts rounds and calls no other (strings of a length), one NodeMask serves
  // every count: each token has its rounds, and is accepted if they are no more than the loop has
  // left. A token that leaves the loop must have at least those that the loop still owes.
  struct Rounds {
    int32_t id = 0;
    uint16_t rounds = 0;
    bool leaves = false;
  };
  bool by_rounds = false;
  std::vector<Rounds> staying;  // ascending by rounds
  std::vector<Rounds> leaving;
  std::vector<Rounds> rest_rounds;
  // Bits of the tokens in `staying` up to a number of rounds, so that no mask needs more than the
  // tokens between two of them.
  struct Checkpoint {
    uint16_t rounds = 0;
    size_t tokens = 0;  // how many of `staying`
    std::vector<uint32_t> bits;
  };
  std::vector<Checkpoint> checkpoints;

  // Sets the bits of the tokens that are accepted whatever comes after. `left` and `owed`: rounds
  // that the loop has left and still owes; meaningless where not `by_rounds`.
  void add_to(std::span<uint32_t> mask, uint32_t left, uint32_t owed) const;
  // Sets the bits of the tokens with the rest that has `ids` in `rests`.
  void add_rest(std::span<const int32_t> rest_ids, std::span<uint32_t> mask, uint32_t left,
                uint32_t owed) const;

  size_t size_bytes() const;
};

// Finds the mask for a place at `node` with `rounds` (frame.h). Walks the whole trie: up to some
// milliseconds for a node that reads nearly everything. Uses this thread's walker.
NodeMask find_node_mask(const Program& program, uint32_t node, uint32_t rounds,
                        const VocabularyTrie& vocabulary, uint64_t max_steps);

}  // namespace forerun::grammar
