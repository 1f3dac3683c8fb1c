// NodeMask: which tokens of a vocabulary are possible from one node of a grammar, for any stack. It
// is the expensive part of a mask, computed once per node and used by every state at that node.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "grammar/program.h"
#include "grammar/vocabulary_trie.h"

namespace forerun::grammar {

struct NodeMask {
  uint64_t steps = 0;     // number of a walker's steps (walker.h) to compute it
  bool given_up = false;  // its computation stopped at the limit; no other field is filled
  // The tokens that are accepted for any return address of the node's rule: one bit per token, or
  // their ids.
  bool dense = false;
  std::vector<uint32_t> bits;
  std::vector<int32_t> ids;
  // The tokens with a first part that ends the rule, so that the rest must be accepted where the
  // rule returns to: these rests, each with the ids of its tokens or, if `by_rounds`, with indices
  // into `rest_rounds`.
  ByteTrie rests;

  // In a rule that counts rounds and calls no other rule (strings of a length), one NodeMask serves
  // every count: each token has its rounds, and is accepted if the loop has at least as many left.
  // A token that leaves the loop must have at least the rounds that the loop still owes.
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
    size_t tokens = 0;  // number of tokens of `staying` that are included
    std::vector<uint32_t> bits;
  };
  std::vector<Checkpoint> checkpoints;

  // Sets the bits of the tokens that are accepted for any continuation. `left` and `owed` are the
  // rounds that the loop has left and still owes; unused unless `by_rounds`.
  void add_to(std::span<uint32_t> mask, uint32_t left, uint32_t owed) const;
  // Sets the bits of the tokens with the rest that has `ids` in `rests`.
  void add_rest(std::span<const int32_t> rest_ids, std::span<uint32_t> mask, uint32_t left,
                uint32_t owed) const;

  size_t size_bytes() const;
};

// Computes the mask for a place at `node` with `rounds` (frame.h). Walks the whole trie: up to some
// milliseconds for a node that reads nearly everything. Uses this thread's walker.
NodeMask find_node_mask(const Program& program, uint32_t node, uint32_t rounds,
                        const VocabularyTrie& vocabulary, uint64_t max_steps);

}  // namespace forerun::grammar
