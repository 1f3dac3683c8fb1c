// The acceptance rates of ways to draft: assumed until draft tokens have been verified, then
// estimated from recently verified ones.
//
// Thread rules: one thread at a time.
#pragma once

#include <cstdint>
#include <vector>

#include "planner/measured_arms.h"
#include "planner/rank_speculation.h"

namespace forerun {

class CandidateAcceptance {
 public:
  struct Options {
    double prior_guesses = 32;    // weight of the assumed acceptance rate, in draft tokens
    double memory_guesses = 256;  // draft tokens after which an old one counts 1/e
    double memory_seconds = 900;  // seconds after which an idle candidate's evidence counts 1/e
  };

  explicit CandidateAcceptance(std::vector<SpeculationCandidate> candidates);
  CandidateAcceptance(std::vector<SpeculationCandidate> candidates, Options options);

  // Records one sequence's round: the first `accepted` of `gamma` draft tokens were accepted.
  // Tokens after the first rejected one give no information. Ignored if no candidate has this
  // index.
  void observe(int32_t candidate, int32_t gamma, int32_t accepted);

  // Records that `seconds` of decoding have passed: the evidence of candidates other than `running`
  // counts less, so that their rates return to the assumed ones.
  void pass(double seconds, int32_t running);

  // Returns the observed guesses of each candidate.
  std::vector<MeasuredGuesses> measured() const;
  // Takes the observations of an earlier start, one entry per candidate; they count at most as much
  // as the assumed rate.
  void recall(const std::vector<MeasuredGuesses>& candidates);

  // Returns the candidates by index, with the acceptance rates learnt so far.
  const std::vector<SpeculationCandidate>& candidates() const { return candidates_; }

 private:
  struct Evidence {
    double assumed = 0.0;
    double right = 0.0;
    double seen = 0.0;
  };
  void update(size_t candidate);

  const Options options_;
  std::vector<SpeculationCandidate> candidates_;
  std::vector<Evidence> evidence_;  // one entry per candidate
};

}  // namespace forerun
