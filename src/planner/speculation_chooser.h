// What the present batch is to guess with, and how far: the best candidate by prediction, from what
// Steps cost now and how often each candidate's guesses have lately been right. What is decided
// stays until something else is clearly better, and never while plain decoding is predicted to be
// faster.
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
    double other_draft = 1.05;    // over the present candidate, for another to take its place
    double other_gamma = 1.01;    // the same for another number of guesses
    double prior_guesses = 32;    // that a candidate's assumed acceptance is worth
    double memory_guesses = 256;  // after which an old one counts 1/e
    // Decisions after which what was learnt of a candidate that does not run counts 1/e: it goes
    // back to what was assumed and is tried again some day.
    double forget_decisions = 2000;
    int32_t decisions_kept = 16;  // a load bucket's decision is looked at again after so many
  };

  // The candidates' acceptance is what is assumed until guesses have been seen.
  explicit SpeculationChooser(std::vector<SpeculationCandidate> candidates);
  SpeculationChooser(std::vector<SpeculationCandidate> candidates, Options options);

  // One sequence's round: of `gamma` guesses the first `accepted` were right. Those after the first
  // wrong one tell nothing. Ignored for an index that no candidate has.
  void observe(int32_t candidate, int32_t gamma, int32_t accepted);

  // For the batch's next rounds; call it before each. Loads within an eighth of each other count as
  // the same. `costs` has entries for the target.
  const SpeculationForecast& choose(const StepCosts& costs, const BatchLoad& load);

  const SpeculationForecast& current() const { return current_; }
  // By index, with what has been learnt.
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
