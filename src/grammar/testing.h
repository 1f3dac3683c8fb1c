// Helpers for this folder's tests, benches and tools: vocabularies, walks by tokens, masks by brute
// force.
#pragma once

#include <cstdint>
#include <optional>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "grammar/grammar.h"
#include "grammar/token_masks.h"

namespace forerun::grammar {

// Returns whether `text` is a whole text of the grammar. Feeds it byte by byte and all at once, and
// aborts if the results differ.
bool matches(const Grammar& grammar, std::string_view text);

// Returns every byte, then `count` texts of 2 to 6 bytes cut from `sample` at random places (also
// through characters) and from typical parts of JSON.
std::vector<std::string> synthetic_tokens(std::string_view sample, size_t count, uint32_t seed);

// Grammars that read words and blanks in many ways.
struct GreedyGrammar {
  const char* name;
  std::string text;
  bool always_costly = false;  // after short and long texts: it has too many rules
};
std::vector<GreedyGrammar> greedy_grammars();

// Returns the expected result of write(): tries every token on a copy of the state.
std::vector<uint32_t> brute_force_mask(const GrammarState& state, const VocabularyTrie& vocabulary);

// Walks from the start by random allowed tokens until the text ends; after `soft_limit` tokens, by
// the bytes that are nearest to an end. Returns nothing if it does not end.
std::optional<std::string> random_text(const Grammar& grammar, TokenMasks& masks,
                                       std::mt19937& random, size_t soft_limit);

}  // namespace forerun::grammar
