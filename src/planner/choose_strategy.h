// Decides whether to use the draft model, and with which parameters, from the cost of Steps and the
// acceptance rate of draft tokens. Pure.
//
// The prediction for a setting assumes that a round grows a draft tree in d draft Steps of w
// leaves, with the same children at all nodes (a node's i-th best child is accepted with chance
// `rank_chances[i]`), and verifies the best bs nodes. Tokens per round = 1 + the sum of the nodes'
// chances; time = d draft Steps and one target Step, host included.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "planner/forecast_split.h"
#include "step/cost_table.h"
#include "strategies/speculation_plan.h"

namespace forerun {

struct PlannerInput {
  CostTable costs;
  bool has_draft_model = false;
  Placing placing = {};
  // The chances that the draft's best, second, ... token is the target's, given that all earlier
  // tokens on the path were. Empty: the chances are assumed.
  std::vector<double> rank_chances = {};
};

struct StrategyChoice {
  // The plan that "auto" resolves to: parallel_tree if the models run concurrently; the best by
  // forecast (mostly pipelined) if the target has stages; else serial_tree. If the draft model
  // cannot pay, serial_tree drafts by "suffix", from the text so far: that costs nothing, and its
  // draft tokens are verified only as far as that pays.
  AutoChoice auto_choice = {.source_without_draft = "suffix"};
  // The best fixed setting, which serial_tree's shape "best" uses.
  int32_t verify_tokens = 1;
  int32_t draft_width = 0;
  int32_t draft_depth = 0;
  double tokens_per_round = 1.0;
  double seconds_per_round = 0.0;
  double speedup = 1.0;  // predicted speed-up over plain decoding
  std::string report;    // a table of the best settings and the reason; lines end in '\n'
};

// Returns the expected tokens per round of such a tree; 1 without a draft Step.
double expected_tokens(const std::vector<double>& rank_chances, int32_t verify_tokens,
                       int32_t draft_width, int32_t draft_depth);

// Without measured costs, chooses the draft model if there is one, and the report says why. With
// assumed chances, chooses it unless not even a very good draft could pay. With given chances,
// chooses it if its best setting beats plain decoding.
StrategyChoice choose_strategy(const PlannerInput& input);

}  // namespace forerun
