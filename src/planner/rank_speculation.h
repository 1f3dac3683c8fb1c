// Which way to speculate suits a batch best, by prediction: every candidate at every number of
// guesses a round, beside plain decoding. Pure.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "planner/speculation_costs.h"
#include "step/step_costs.h"

namespace forerun {

// A way to guess, and how often it is right.
struct SpeculationCandidate {
  DraftOption draft;
  std::string view = {};    // of the cache, by name; empty: the draft sees all of it
  double acceptance = 0.0;  // alpha, in [0, 1]
  int64_t own_tokens = 0;   // of cache that it takes beside a sequence's own, each
};

// What one setting promises at one load.
struct SpeculationForecast {
  static constexpr int32_t kPlain = -1;
  int32_t candidate = kPlain;  // index into the candidates
  int32_t gamma = 0;           // guesses a round; 0 of plain decoding
  double tokens_per_round = 1.0;
  RoundSeconds times;
  double tokens_per_s = 0.0;  // of all sequences together
  double speedup = 1.0;       // over plain decoding

  bool is_plain() const { return candidate == kPlain; }
};

struct RankOptions {
  int32_t max_gamma = 12;
  double round_overhead = 0.0;  // seconds, beside a round's Steps
};

// Whether a candidate can be run behind such a context: its model has costs, there is memory for
// it, and it sees less than all. A draft model may see all, the target that guesses for itself may
// not.
bool applies(const SpeculationCandidate& candidate, const StepCosts& costs, const BatchLoad& load);

// `costs` has entries for the target, as everywhere here.
SpeculationForecast forecast_plain(const StepCosts& costs, const BatchLoad& load);
// The forecast of candidates[index] with `gamma` draft tokens a round. The candidate must apply;
// gamma >= 1.
SpeculationForecast forecast(const StepCosts& costs, const BatchLoad& load,
                             const std::vector<SpeculationCandidate>& candidates, int32_t index,
                             int32_t gamma, const RankOptions& options = {});

// Best first; plain decoding is among them, before what is no faster.
std::vector<SpeculationForecast> rank_speculation(
    const StepCosts& costs, const BatchLoad& load,
    const std::vector<SpeculationCandidate>& candidates, const RankOptions& options = {});
// The first of them, and the first of each candidate, in the same order.
SpeculationForecast best_speculation(const StepCosts& costs, const BatchLoad& load,
                                     const std::vector<SpeculationCandidate>& candidates,
                                     const RankOptions& options = {});
std::vector<SpeculationForecast> best_of_each(const std::vector<SpeculationForecast>& ranked);

}  // namespace forerun
