#include "strategies/lossy_choice.h"

#include <cmath>

namespace forerun {

Candidate lossy_choice(const TokenTree& tree, NodeId node, const std::vector<Candidate>& likely,
                       const AcceptSpec& accept) {
  NodeId chosen = kNoNode;
  Candidate choice = likely.front();
  double probability = 0.0;
  for (const Candidate& candidate : likely) {
    const NodeId guess = tree.child(node, candidate.token);
    const bool is_guess =
        guess != kNoNode && tree.expansion(Role::kTarget, guess) != Expansion::kUnexpanded;
    if (is_guess && (chosen == kNoNode || tree.weight(guess) > tree.weight(chosen))) {
      chosen = guess;
      choice = candidate;
    }
    probability += std::exp(static_cast<double>(candidate.logprob));
    const bool has_looked_far_enough =
        accept.rule == AcceptRule::kRelaxed ? chosen != kNoNode : probability >= accept.nucleus;
    if (has_looked_far_enough) break;
  }
  return choice;
}

}  // namespace forerun
