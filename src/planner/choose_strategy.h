// Whether the draft model pays and with which parameters, from what Steps cost and how often
// guesses are right. Pure.
//
// A setting's prediction: a round grows a tree of average guesses (each node's best few children
// are right with the chances of `rank_chances`), d draft steps of w leaves, and verifies the best
// bs nodes; tokens a round = 1 + the sum of their chances, time = d draft steps and one target
// step, host included.
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
  // Chance that the draft's best, second, ... guess is the target's token, given that those before
  // on the path were. Empty: assumed.
  std::vector<double> rank_chances = {};
};

struct StrategyChoice {
  // What "auto" is to stand for. parallel_tree where the models run concurrently, of a target in
  // stages what a forecast finds best (pipelined, mostly); else serial_tree, which guesses by
  // "suffix", the text so far, where the draft model cannot pay: that costs nothing to ask and is
  // verified only as far as it pays.
  AutoChoice auto_choice = {.source_without_draft = "suffix"};
  // The best fixed setting: what serial_tree's shape "best" would be given.
  int32_t verify_tokens = 1;
  int32_t draft_width = 0;
  int32_t draft_depth = 0;
  double tokens_per_round = 1.0;
  double seconds_per_round = 0.0;
  double speedup = 1.0;  // predicted, over plain decoding
  std::string report;    // a table of the best settings and the reason, lines end in '\n'
};

// Tokens a round of such a tree; 1 where there is no draft step.
double expected_tokens(const std::vector<double>& rank_chances, int32_t verify_tokens,
                       int32_t draft_width, int32_t draft_depth);

// Without measured costs: the draft model where there is one, said so in the report. Assumed
// chances: the draft unless not even a very good one could pay. Given chances: the draft if its
// best setting beats plain decoding.
StrategyChoice choose_strategy(const PlannerInput& input);

}  // namespace forerun
