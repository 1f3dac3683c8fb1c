// The two rules of SpecPipe §3.4 that trade the text for fewer misses: what comes out is among what
// the target finds likely, but not what it would have said.
#pragma once

#include <vector>

#include "strategies/accept_rule_table.h"
#include "tree/token_tree.h"

namespace forerun {

// So many of the target's candidates are asked for and looked at.
inline constexpr int32_t kLossyCandidates = 64;

// The token after `node`: of `likely`, the target's candidates, best first and not empty. Guesses
// are the node's children that the target has run or is running, since only they save anything.
//
// kRelaxed: the likeliest candidate that is a guess. kNucleus: of the candidates that make up
// `accept.nucleus` of the probability, the guess of highest weight. Without one: the likeliest.
Candidate lossy_choice(const TokenTree& tree, NodeId node, const std::vector<Candidate>& likely,
                       const AcceptSpec& accept);

}  // namespace forerun
