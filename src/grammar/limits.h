// Limits on the cost of compiling one grammar. Grammars come from untrusted clients, so each limit
// is a count, which is the same on every machine, and not a time. A grammar that exceeds a limit is
// refused with a message that names the limit.
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
  uint64_t max_work = 20'000'000;  // elementary steps of compilation, about 10 ns each
};

// Returns limits that usual grammars do not exceed, and that are reached within about 30 ms. A
// grammar that exceeds them is compiled on a thread that may take long.
inline GrammarLimits quick_limits() {
  GrammarLimits limits;
  limits.max_expressions /= 20;
  limits.max_work /= 50;
  return limits;
}

}  // namespace forerun::grammar
