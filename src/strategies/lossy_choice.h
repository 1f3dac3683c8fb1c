// The two rules of SpecPipe §3.4 that give up plain decoding's text for fewer misses: each token is
// one that the target finds likely, but not always the one that it would have drawn.
#pragma once

#include <vector>

#include "strategies/accept_rule_table.h"
#include "tree/token_tree.h"

namespace forerun {

// How many of the target's candidates are asked for and considered.
inline constexpr int32_t kLossyCandidates = 64;

// Chooses the token after `node` among `likely`, the target's candidates, best first and not empty.
// Only the node's children that the target has run or is running count as guesses, since only those
// save a Step.
//
// kRelaxed: the most likely candidate that is a guess. kNucleus: the guess of highest weight among
// the candidates that make up `accept.nucleus` of the probability. Where there is no such guess:
// the most likely candidate.
Candidate lossy_choice(const TokenTree& tree, NodeId node, const std::vector<Candidate>& likely,
                       const AcceptSpec& accept);

}  // namespace forerun
