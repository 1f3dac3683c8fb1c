// Derives the merges of a SentencePiece BPE vocabulary, which has a score per token but no merges.
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

// Returns, for each token with a non-zero entry in `may_join`, every way to split it, between two
// characters, into two tokens of `vocab`. They are in the order that transformers' converter writes
// to tokenizer.json: by score, then by the characters of the left part, then by those of the right
// part, each from high to low, and by id if all are equal. `scores` and `may_join` are indexed by
// id. Token texts are UTF-8. A NaN counts as the lowest score.
std::vector<IdPair> derive_merges(const TokenTable& vocab, std::span<const float> scores,
                                  std::span<const uint8_t> may_join);

}  // namespace forerun::text
