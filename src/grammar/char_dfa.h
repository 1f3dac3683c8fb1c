// CharDfa runs several automata over characters at once and reports which of them match a text.
// Used for intersections, complements, and names that match some patterns and not others.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "forerun/status.h"
#include "grammar/char_nfa.h"
#include "grammar/limits.h"

namespace forerun::grammar {

struct CharDfa {
  struct State {
    std::vector<CharNfa::Edge> edges;  // their sets are disjoint and cover every character
    uint64_t marks = 0;                // bit i: automaton i accepts a text that ends here
  };
  std::vector<State> states;  // [0] is the start
};

// Accepts at most 64 automata. Fails with kResourceExhausted above a number of states or moves.
Result<CharDfa> read_together(std::span<const CharNfa> nfas, const GrammarLimits& limits);

// Returns an automaton of the texts of `dfa` with marks for which `wanted` returns true, without
// states that lead to none of them; no states at all if there is no such text.
CharNfa texts_where(const CharDfa& dfa, const std::function<bool(uint64_t)>& wanted);

// Returns an automaton of exactly these texts, which must be UTF-8.
CharNfa literal_texts(std::span<const std::string> texts);

bool accepts(const CharNfa& nfa, std::string_view text);

// The smallest and largest number of characters of a text. `most` is UINT32_MAX if there is no
// bound, `fewest` is UINT32_MAX if there is no text at all.
struct LengthRange {
  uint32_t fewest = UINT32_MAX;
  uint32_t most = 0;
};
LengthRange lengths_of(const CharNfa& nfa);

}  // namespace forerun::grammar
