// Learns, while decoding, how often guesses are accepted.
//
// Calibration: a guess to which its origin gives probability p is accepted with probability p * f.
// The factor f is estimated from earlier guesses of that origin with a similar p, and decays over
// some tens of guesses. A request starts from the estimates of all requests (SharedAcceptance),
// which start from f = 1, and 0.6 for a source's guesses. Only guesses with an accepted parent are
// observed, so p and p * f are conditional on the parent.
//
// Profile: the average probability of the best few guesses below a node, by the node's own
// probability. It predicts the gain of a draft step before it runs.
//
// Thread rules: pure arithmetic; one thread at a time for all objects that share a
// SharedAcceptance.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <vector>

#include "strategies/tree_growth.h"

namespace forerun {

// Counts of accepted and of expected guesses, by origin and probability.
class CalibrationTable {
 public:
  static constexpr int32_t kBuckets = 12;  // buckets of equal width in log-odds, from -5 to 5
  static constexpr int32_t kOrigins = 3;

  static int32_t bucket_of(float p);
  // `memory`: number of guesses of a bucket after which an old one counts 1/e.
  void observe(Guess::Origin origin, int32_t bucket, float p, bool right, float memory);
  // Returns the factor f, given a prior that weighs as much as `strength` expected accepted
  // guesses.
  float factor(Guess::Origin origin, int32_t bucket, float prior, float strength) const;

 private:
  struct Cell {
    float right = 0.0f;
    float expected = 0.0f;
  };
  std::array<std::array<Cell, kBuckets>, kOrigins> cells_{};
};

// The mean calibrated probability of the guesses below a node, best first.
class DraftProfile {
 public:
  static constexpr int32_t kRanks = 4;
  static constexpr int32_t kContexts = 5;  // the root, and nodes by their own probability
  DraftProfile();

  static int32_t context_of(bool is_root, float p);
  // `memory`: number of observations that the mean covers, once there have been that many.
  void observe(int32_t context, const std::array<float, kRanks>& chances, float memory);
  // Keeps the means but reduces their weight, so that the next observations count more.
  void weaken();
  const std::array<float, kRanks>& chances(int32_t context) const {
    return means_[static_cast<size_t>(context)];
  }

 private:
  std::array<std::array<float, kRanks>, kContexts> means_;
  std::array<float, kContexts> seen_;
};

// A number of tokens, and the time in which they were expected, in plain Steps (one target row
// alone = 1).
struct ExpectedPace {
  double tokens = 0.0;
  double steps = 0.0;

  // Adds tokens and time. After `memory` additions an old one counts 1/e.
  void add(double more_tokens, double more_steps, double memory) {
    const double fade = 1.0 - 1.0 / memory;
    tokens = tokens * fade + more_tokens;
    steps = steps * fade + more_steps;
  }
  double speedup() const { return steps > 0.0 ? tokens / steps : 1.0; }
};

// The experience that all requests share.
class SharedAcceptance {
 public:
  CalibrationTable table;
  DraftProfile profile;
  float speedup = 1.1f;    // tokens in the time of a plain Step, over the last requests
  float allowance = 1.5f;  // time for probing a draft that seems too slow to use, in plain Steps
  // The expected gain of recent adaptive rounds, with sources without a model only, and with the
  // draft model as well, whether the costs allowed such guesses or not.
  ExpectedPace by_text = {8.0, 8.0};
  ExpectedPace by_draft = {8.0, 8.0};
};

// One request's acceptance: its own experience combined with the shared one. Updates both.
class Acceptance {
 public:
  // `shared` null: starts without experience and shares none.
  explicit Acceptance(std::shared_ptr<SharedAcceptance> shared);

  // Encodes a guess's origin, bucket and p in its note, so that observe() needs no other data.
  static uint32_t make_note(Guess::Origin origin, float p);
  // Returns the probability that a guess is accepted given that its parent is; at most 0.98.
  float calibrated(uint32_t note) const;
  // Takes the guesses for one token with the log-probabilities of their origins. Sets their notes
  // and their calibrated log-probabilities, which add up to a probability of at most 1, and sorts
  // them by descending probability.
  void weigh(std::vector<Guess>& guesses) const;
  void observe(uint32_t note, bool right);

  const DraftProfile& profile() const { return profile_; }
  void observe_profile(int32_t context, const std::array<float, DraftProfile::kRanks>& chances);
  void weaken_profile() { profile_.weaken(); }
  SharedAcceptance& shared() { return *shared_; }

 private:
  float factor(Guess::Origin origin, int32_t bucket) const;

  std::shared_ptr<SharedAcceptance> shared_;
  CalibrationTable table_;
  DraftProfile profile_;
};

}  // namespace forerun
