// Ranks ways to speculate for a batch by predicted speed: every candidate with every number of
// draft tokens per round, and plain decoding. Pure.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "planner/speculation_costs.h"
#include "step/step_costs.h"

namespace forerun {

// A way to draft, and its acceptance rate.
struct SpeculationCandidate {
  DraftOption draft;
  std::string view = {};    // name of the view of the KV cache; empty: the draft sees all of it
  double acceptance = 0.0;  // alpha, in [0, 1]
  int64_t own_tokens = 0;   // additional tokens of KV cache per sequence
  // The time in which a view selects its first tokens, in reads of the whole KV cache.
  double kv_reads_to_begin = 0.0;
};

// The predicted speed of one setting at one load.
struct SpeculationForecast {
  static constexpr int32_t kPlain = -1;
  int32_t candidate = kPlain;  // index into the candidates
  int32_t gamma = 0;           // draft tokens per round; 0 for plain decoding
  double tokens_per_round = 1.0;
  RoundSeconds times;
  double tokens_per_s = 0.0;  // tokens/s of all sequences together
  double speedup = 1.0;       // speed-up over plain decoding

  bool is_plain() const { return candidate == kPlain; }
};

struct RankOptions {
  int32_t max_gamma = 12;
  double round_overhead = 0.0;  // seconds of a round besides its Steps
};

// Returns whether a candidate can run at such a load: its model has costs, there is memory for it,
// and its view covers less than the context. Only a draft model may see the whole context; the
// target that drafts for itself may not.
bool applies(const SpeculationCandidate& candidate, const StepCosts& costs, const BatchLoad& load);

// Returns the forecast of plain decoding. Here and below `costs` must have entries for the target.
SpeculationForecast forecast_plain(const StepCosts& costs, const BatchLoad& load);
// Returns the forecast of candidates[index] with `gamma` draft tokens per round. The candidate must
// apply; gamma >= 1.
SpeculationForecast forecast(const StepCosts& costs, const BatchLoad& load,
                             const std::vector<SpeculationCandidate>& candidates, int32_t index,
                             int32_t gamma, const RankOptions& options = {});

// Returns forecasts of all settings, best first. Plain decoding precedes all that are not faster.
std::vector<SpeculationForecast> rank_speculation(
    const StepCosts& costs, const BatchLoad& load,
    const std::vector<SpeculationCandidate>& candidates, const RankOptions& options = {});
// best_speculation() returns the first of these forecasts, best_of_each() the first of each
// candidate, in the same order.
SpeculationForecast best_speculation(const StepCosts& costs, const BatchLoad& load,
                                     const std::vector<SpeculationCandidate>& candidates,
                                     const RankOptions& options = {});
std::vector<SpeculationForecast> best_of_each(const std::vector<SpeculationForecast>& ranked);

}  // namespace forerun
