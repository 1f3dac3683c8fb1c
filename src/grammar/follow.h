// Finds which bytes may follow a rule's text, at any call of the rule in the grammar.
#pragma once

#include "forerun/status.h"
#include "grammar/nfa.h"
#include "grammar/program.h"

namespace forerun::grammar {

// Fills CompiledRule::follow of every rule. `program.rules[...].order` must be set.
Status find_follow(Program& program, WorkMeter& work);

}  // namespace forerun::grammar
