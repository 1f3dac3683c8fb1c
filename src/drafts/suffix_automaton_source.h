// Guesses by a suffix automaton over prompt and output: the tokens that followed the longest suffix
// that has occurred before, of any length, then those that followed shorter ones.
//
// Probabilities come from the edges' counts. The longer the match, the less probability is left to
// unseen tokens. A match of length l that D different tokens followed, with a total count of T,
// leaves D e / (T + D e), with e = 2 / (1 + l), to shorter matches.
#pragma once

#include <vector>

#include "drafts/draft_source.h"
#include "drafts/suffix_automaton.h"

namespace forerun {

class SuffixAutomatonSource : public DraftSource {
 public:
  // Makes no guess from matches shorter than `min_match` tokens.
  explicit SuffixAutomatonSource(int32_t min_match = 2) : min_match_(min_match) {}

  void observe(std::span<const TokenId> tokens) override;
  void propose(std::span<const TokenId> path, int32_t count,
               std::vector<Candidate>& out) const override;
  const SuffixAutomaton& automaton() const { return automaton_; }

 private:
  SuffixAutomaton automaton_;
  int32_t min_match_;
};

}  // namespace forerun
