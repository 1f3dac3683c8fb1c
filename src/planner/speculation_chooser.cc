#include "planner/speculation_chooser.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace forerun {
namespace {

// A change of the acceptance rate by this much leads to a new decision before it is due.
constexpr double kMoved = 0.03;
constexpr double kBucketsPerOctave = 6.0;  // 2^(1/6): 12% wide

int32_t bucket_index(int64_t value) {
  return static_cast<int32_t>(
      std::floor(kBucketsPerOctave * std::log2(static_cast<double>(std::max<int64_t>(value, 1)))));
}

}  // namespace

SpeculationChooser::SpeculationChooser(std::vector<SpeculationCandidate> candidates)
    : SpeculationChooser(std::move(candidates), Options{}) {}

SpeculationChooser::SpeculationChooser(std::vector<SpeculationCandidate> candidates,
                                       Options options)
    : options_(options), candidates_(std::move(candidates)) {
  for (const SpeculationCandidate& candidate : candidates_) {
    evidence_.push_back({.assumed = candidate.acceptance});
  }
}

void SpeculationChooser::update(size_t candidate) {
  const Evidence& evidence = evidence_[candidate];
  candidates_[candidate].acceptance = (evidence.right + options_.prior_guesses * evidence.assumed) /
                                      (evidence.seen + options_.prior_guesses);
}

void SpeculationChooser::observe(int32_t candidate, int32_t gamma, int32_t accepted) {
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

void SpeculationChooser::forget_idle() {
  const double kept = std::exp(-1.0 / options_.forget_decisions);
  for (size_t index = 0; index < evidence_.size(); ++index) {
    if (static_cast<int32_t>(index) == current_.candidate) continue;
    evidence_[index].right *= kept;
    evidence_[index].seen *= kept;
    update(index);
  }
}

SpeculationChooser::Bucket SpeculationChooser::bucket_of(const BatchLoad& load) {
  return {bucket_index(load.sequences), bucket_index(load.context_tokens)};
}

double SpeculationChooser::present_acceptance() const {
  return current_.is_plain() ? 0.0
                             : candidates_[static_cast<size_t>(current_.candidate)].acceptance;
}

SpeculationForecast SpeculationChooser::decide(const StepCosts& costs,
                                               const BatchLoad& load) const {
  const std::vector<SpeculationForecast> ranked =
      rank_speculation(costs, load, candidates_, options_.rank);
  const SpeculationForecast& best = ranked.front();
  if (current_.is_plain() ||
      !applies(candidates_[static_cast<size_t>(current_.candidate)], costs, load)) {
    return best.speedup >= options_.entry ? best : forecast_plain(costs, load);
  }
  const SpeculationForecast kept =
      forecast(costs, load, candidates_, current_.candidate, current_.gamma, options_.rank);
  // The same draft at its best number of guesses.
  const SpeculationForecast& same = *std::find_if(
      ranked.begin(), ranked.end(),
      [&](const SpeculationForecast& each) { return each.candidate == current_.candidate; });
  if (best.speedup >= options_.other_draft * std::max(same.speedup, 1.0)) return best;
  if (same.speedup < 1.0) return forecast_plain(costs, load);
  return kept.speedup < 1.0 || same.speedup >= options_.other_gamma * kept.speedup ? same : kept;
}

const SpeculationForecast& SpeculationChooser::choose(const StepCosts& costs,
                                                      const BatchLoad& load) {
  forget_idle();
  const Bucket bucket = bucket_of(load);
  const bool same_load = bucket == bucket_ && ++decisions_ < options_.decisions_kept;
  if (same_load && std::abs(present_acceptance() - decided_acceptance_) <= kMoved) return current_;
  bucket_ = bucket;
  decisions_ = 0;
  current_ = decide(costs, load);
  decided_acceptance_ = present_acceptance();
  return current_;
}

}  // namespace forerun
