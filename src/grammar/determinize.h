// The subset construction: one rule of an Nfa as a deterministic automaton. Internal to
// compile_rules().
#pragma once

#include <cstdint>
#include <vector>

#include "forerun/status.h"
#include "grammar/nfa.h"
#include "grammar/program.h"

namespace forerun::grammar {

struct Dfa {
  struct State {
    std::vector<ByteEdge> edges;  // ascending; targets are indices into Dfa::states
    std::vector<CallEdge> calls;  // sorted by rule, each at most once
    bool accepting = false;
    LoopPart loop = LoopPart::kOutside;
  };
  std::vector<State> states;  // [0] is the start, which no edge enters
};

// Fails with kResourceExhausted above `states_left`, the part of `max_states` that other rules have
// left, or above the meter's limit.
Result<Dfa> determinize(const Nfa& nfa, RuleId rule, size_t states_left, size_t max_states,
                        WorkMeter& work);

}  // namespace forerun::grammar
