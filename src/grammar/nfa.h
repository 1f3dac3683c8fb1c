// Nfa: the rules of a RuleSet as one non-deterministic automaton, the stage between expressions and
// a Program. Internal to compile_rules().
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "forerun/status.h"
#include "grammar/limits.h"
#include "grammar/rule_set.h"

namespace forerun::grammar {

// Counts elementary steps; compilation stops when the limit is exceeded.
struct WorkMeter {
  uint64_t limit = 0;
  uint64_t done = 0;
  bool spend(uint64_t steps) { return (done += steps) <= limit; }
  Status exceeded() const {
    return Status(StatusCode::kResourceExhausted,
                  "grammar: compiling it takes more than " + std::to_string(limit) +
                      " steps; accepted: fewer or smaller alternatives and repetitions");
  }
};

struct Nfa {
  struct ByteMove {
    ByteRange bytes;
    uint32_t to = 0;
  };
  struct CallMove {
    RuleId rule = 0;
    uint32_t to = 0;
  };
  struct State {
    std::vector<ByteMove> bytes;
    std::vector<CallMove> calls;
    std::vector<uint32_t> empties;
  };
  struct RuleStates {
    uint32_t start = 0, end = 0;
    // The states of a counted rule between two rounds: `head_count` of them from `head` on.
    uint32_t head = UINT32_MAX, head_count = 1;
    bool reads_empty = false;

    bool is_head(uint32_t state) const { return state - head < head_count; }
  };
  std::vector<State> states;
  std::vector<RuleStates> rules;
};

// Builds the automaton. Every rule of `rules` must be defined. Small rules are copied into their
// callers. If a called rule reads the empty text, an empty move leads around the call.
Result<Nfa> build_nfa(const RuleSet& rules, const GrammarLimits& limits, WorkMeter& work);

}  // namespace forerun::grammar
