// Which bytes may come after a rule's text, wherever in the grammar it is called.
#pragma once

#include "forerun/status.h"
#include "grammar/nfa.h"
#include "grammar/program.h"

namespace forerun::grammar {

// Fills CompiledRule::follow of every rule. `program.rules[...].order` must be set.
Status find_follow(Program& program, WorkMeter& work);

}  // namespace forerun::grammar
