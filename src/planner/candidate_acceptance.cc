#include "planner/candidate_acceptance.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace forerun {

CandidateAcceptance::CandidateAcceptance(std::vector<SpeculationCandidate> candidates)
    : CandidateAcceptance(std::move(candidates), Options{}) {}

CandidateAcceptance::CandidateAcceptance(std::vector<SpeculationCandidate> candidates,
                                         Options options)
    : options_(options), candidates_(std::move(candidates)) {
  for (const SpeculationCandidate& candidate : candidates_) {
    evidence_.push_back({.assumed = candidate.acceptance});
  }
}

void CandidateAcceptance::observe(int32_t candidate, int32_t gamma, int32_t accepted) {
  if (candidate < 0 || static_cast<size_t>(candidate) >= evidence_.size()) return;
  accepted = std::clamp(accepted, 0, std::max(gamma, 0));
  const int32_t seen = accepted < gamma ? accepted + 1 : accepted;
  const auto index = static_cast<size_t>(candidate);
  Evidence& evidence = evidence_[index];
  const double kept = std::exp(-seen / options_.memory_guesses);
  evidence.right = kept * evidence.right + accepted;
  evidence.seen = kept * evidence.seen + seen;
  update(index);
}

void CandidateAcceptance::pass(double seconds, int32_t running) {
  const double kept = std::exp(-seconds / options_.memory_seconds);
  for (size_t index = 0; index < evidence_.size(); ++index) {
    if (static_cast<int32_t>(index) == running) continue;
    evidence_[index].right *= kept;
    evidence_[index].seen *= kept;
    update(index);
  }
}

std::vector<MeasuredGuesses> CandidateAcceptance::measured() const {
  std::vector<MeasuredGuesses> kept;
  for (const Evidence& each : evidence_) kept.push_back({.seen = each.seen, .right = each.right});
  return kept;
}

void CandidateAcceptance::recall(const std::vector<MeasuredGuesses>& candidates) {
  for (size_t index = 0; index < evidence_.size() && index < candidates.size(); ++index) {
    const MeasuredGuesses& kept = candidates[index];
    if (kept.seen <= 0.0) continue;
    const double share = std::min(1.0, options_.prior_guesses / kept.seen);
    evidence_[index].seen = share * kept.seen;
    evidence_[index].right = share * std::min(kept.right, kept.seen);
    update(index);
  }
}

void CandidateAcceptance::update(size_t candidate) {
  const Evidence& evidence = evidence_[candidate];
  candidates_[candidate].acceptance = (evidence.right + options_.prior_guesses * evidence.assumed) /
                                      (evidence.seen + options_.prior_guesses);
}

}  // namespace forerun
