// For this folder's tests, benches and tools: vocabularies, walks by tokens, masks by brute force.
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

// Whether `text` is a whole text of the grammar; feeds it byte by byte or all at once, and aborts
// if the two differ.
bool matches(const Grammar& grammar, std::string_view text);

// Every byte, then `count` texts of 2 to 6 bytes cut from `sample` at random places (so also
// through characters) and from what JSON is made of.
std::vector<std::string> synthetic_tokens(std::string_view sample, size_t count, uint32_t seed);

// Grammars that read words and blanks in many ways.
struct GreedyGrammar {
  const char* name;
  std::string text;
  bool always_costly = false;  // after a short text as after a long one: it has too many rules
};
std::vector<GreedyGrammar> greedy_grammars();

// The mask as write() should give it: every token tried on a copy of the state.
std::vector<uint32_t> brute_force_mask(const GrammarState& state, const VocabularyTrie& vocabulary);

// Walks from the start by allowed tokens drawn at random until the text ends; after `soft_limit`
// tokens, by the bytes that come nearest to an end. Nothing if it does not end.
std::optional<std::string> random_text(const Grammar& grammar, TokenMasks& masks,
                                       std::mt19937& random, size_t soft_limit);

}  // namespace forerun::grammar
