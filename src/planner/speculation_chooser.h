// Chooses the candidate that the present batch drafts with, and the number of draft tokens: the
// best by prediction, from the present costs of Steps and each candidate's recent acceptance rate.
// A choice stays until another one is clearly better, but never while plain decoding is predicted
// to be faster.
//
// One thread at a time.
#pragma once

#include <cstdint>
#include <vector>

#include "planner/rank_speculation.h"
#include "step/step_costs.h"

namespace forerun {

class SpeculationChooser {
 public:
  struct Options {
    RankOptions rank = {.max_gamma = 12};
    double entry = 1.03;          // predicted speed-up from which plain decoding is left
    double other_draft = 1.05;    // gain over the present candidate at which another replaces it
    double other_gamma = 1.01;    // the same for another number of draft tokens
    double prior_guesses = 32;    // draft tokens that the assumed acceptance rate counts as
    double memory_guesses = 256;  // after so many draft tokens an old one counts 1/e
    // After so many decisions, what was learnt about a candidate that does not run counts 1/e: its
    // rate drifts back to the assumed one, so that it is tried again.
    double forget_decisions = 2000;
    int32_t decisions_kept = 16;  // a load bucket's decision is looked at again after so many
  };

  // The candidates' acceptance rates are assumed until draft tokens have been verified.
  explicit SpeculationChooser(std::vector<SpeculationCandidate> candidates);
  SpeculationChooser(std::vector<SpeculationCandidate> candidates, Options options);

  // Records one sequence's round: the first `accepted` of `gamma` draft tokens were right. Tokens
  // after the first wrong one tell nothing. Ignored if no candidate has this index.
  void observe(int32_t candidate, int32_t gamma, int32_t accepted);

  // Chooses for the batch's next round; call it before each. Loads within an eighth of each other
  // count as the same. `costs` must have entries for the target.
  const SpeculationForecast& choose(const StepCosts& costs, const BatchLoad& load);

  const SpeculationForecast& current() const { return current_; }
  // The candidates by index, with the acceptance rates learnt so far.
  const std::vector<SpeculationCandidate>& candidates() const { return candidates_; }

 private:
  struct Evidence {
    double assumed = 0.0;
    double right = 0.0;
    double seen = 0.0;
  };
  struct Bucket {
    int32_t sequences = -1;
    int32_t context = -1;
    bool operator==(const Bucket&) const = default;
  };
  static Bucket bucket_of(const BatchLoad& load);
  void update(size_t candidate);
  void forget_idle();
  double present_acceptance() const;
  SpeculationForecast decide(const StepCosts& costs, const BatchLoad& load) const;

  const Options options_;
  std::vector<SpeculationCandidate> candidates_;
  std::vector<Evidence> evidence_;  // by candidate
  SpeculationForecast current_;     // plain at first
  Bucket bucket_;
  int32_t decisions_ = 0;  // in this bucket, since it was last looked at
  double decided_acceptance_ = 0.0;
};

}  // namespace forerun
