// Compiles rules into a Program.
#pragma once

#include <memory>

#include "forerun/status.h"
#include "grammar/limits.h"
#include "grammar/program.h"
#include "grammar/rule_set.h"

namespace forerun::grammar {

// The automaton of `rules` that begins with rule `root`. Every rule must be defined.
//
// Fails with kResourceExhausted past a limit; with kInvalidArgument where a rule calls itself
// before it reads anything (the message names the rules of the circle) and where no text at all
// satisfies the root.
Result<std::shared_ptr<const Program>> compile_rules(const RuleSet& rules, RuleId root,
                                                     const GrammarLimits& limits);

}  // namespace forerun::grammar
