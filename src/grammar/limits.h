// Limits of what compiling one grammar may cost. Anybody may send a grammar, so each limit is a
// count, which is the same on every machine, and not a time. A grammar that exceeds a limit is
// refused by a message that names the limit.
#pragma once

#include <cstddef>
#include <cstdint>

namespace forerun::grammar {

struct GrammarLimits {
  size_t max_text_bytes = 256 << 10;  // bytes of the schema or grammar text
  int max_depth = 64;                 // nesting of the text, and of $ref within allOf
  size_t max_rules = 16384;
  size_t max_expressions = 400'000;
  size_t max_states = 60'000;      // states of the compiled automaton, all rules together
  uint64_t max_work = 20'000'000;  // elementary steps of compilation, some 10 ns each
};

// Limits that everyday grammars keep to, and that are reached within some 30 ms: whatever exceeds
// them is compiled where it holds up nobody.
inline GrammarLimits quick_limits() {
  GrammarLimits limits;
  limits.max_expressions /= 20;
  limits.max_work /= 50;
  return limits;
}

}  // namespace forerun::grammar
