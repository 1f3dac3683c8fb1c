// The merges of a SentencePiece BPE vocabulary, which has none of its own but a score a token.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "forerun/status.h"
#include "text/token_table.h"

namespace forerun::text {

struct IdPair {
  int32_t left = 0, right = 0;
};

// For each token whose entry in `may_join` is not 0: every way to cut it, between two characters,
// into two tokens of `vocab`. In the order that transformers' converter writes into tokenizer.json:
// by score, then by the characters of the left part, then by those of the right part, each from
// high to low, and by id where all are equal. `scores` and `may_join` are by id. Token texts are
// UTF-8. A NaN counts as the lowest score.
std::vector<IdPair> derive_merges(const TokenTable& vocab, std::span<const float> scores,
                                  std::span<const uint8_t> may_join);

}  // namespace forerun::text
