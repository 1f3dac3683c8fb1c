// Compiles rules into a Program.
#pragma once

#include <memory>

#include "forerun/status.h"
#include "grammar/limits.h"
#include "grammar/program.h"
#include "grammar/rule_set.h"

namespace forerun::grammar {

// Returns the automaton of `rules` that begins with rule `root`. Every rule must be defined.
//
// Fails with kResourceExhausted above a limit; with kInvalidArgument if a rule calls itself before
// it reads any byte (the message names the rules of the cycle), or if no text satisfies the root.
Result<std::shared_ptr<const Program>> compile_rules(const RuleSet& rules, RuleId root,
                                                     const GrammarLimits& limits);

}  // namespace forerun::grammar
