// The two rules of SpecPipe §3.4 that give up plain decoding's text for fewer misses: each token is
// likely for the target, but not always the one that it would have sampled.
#pragma once

#include <vector>

#include "strategies/accept_rule_table.h"
#include "tree/token_tree.h"

namespace forerun {

// The number of target candidates that are requested and considered.
inline constexpr int32_t kLossyCandidates = 64;

// Chooses the token after `node` among `likely`, the target's candidates, best first and not empty.
// Only children of the node that the target has run or is running count as guesses, since only they
// save a Step.
//
// kRelaxed: the most likely candidate that is a guess. kNucleus: the guess of highest weight among
// the candidates that make up `accept.nucleus` of the probability. If there is no such guess: the
// most likely candidate.
Candidate lossy_choice(const TokenTree& tree, NodeId node, const std::vector<Candidate>& likely,
                       const AcceptSpec& accept);

}  // namespace forerun
