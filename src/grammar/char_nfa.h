// CharNfa: a non-deterministic automaton over characters, the form of a pattern before it is
// converted to bytes.
#pragma once

#include <cstdint>
#include <vector>

#include "forerun/status.h"
#include "grammar/code_point_set.h"

namespace forerun::grammar {

struct CharNfa {
  struct Edge {
    CodePointSet chars;
    uint32_t to = 0;
  };
  struct State {
    std::vector<Edge> edges;
    bool end = false;
  };
  std::vector<State> states;  // [0] is the start
};

// Returns an automaton of the texts of `nfa` with min to max characters; max may be UINT32_MAX.
// Fails with kResourceExhausted above `max_states`.
Result<CharNfa> with_length(const CharNfa& nfa, uint32_t min, uint32_t max, size_t max_states);

}  // namespace forerun::grammar
