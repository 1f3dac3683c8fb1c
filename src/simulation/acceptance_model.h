// A statistical model of how often draft tokens are accepted; simulations of strategies sample
// tokens from it. A history is identified by its hash, mix_hash() over its tokens from 0 on.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "step/types.h"

namespace forerun {

inline uint64_t mix_hash(uint64_t hash, uint64_t value) {
  hash ^= value + 0x9e3779b97f4a7c15u + (hash << 6) + (hash >> 2);
  hash *= 0xbf58476d1ce4e5b9u;
  return hash ^ hash >> 31;
}

// Target and draft as functions of a history's hash. Its methods are pure and may be called from
// any thread.
struct AcceptanceModel {
  uint64_t seed = 1;
  int32_t vocab = 50;
  int32_t draft_vocab = 50;
  // rank_hit[r] is the mean chance that the target's token is the draft's r-th guess. The chances
  // of a single history vary around it by `spread` (0 to 1). The draft's log-probabilities are
  // these chances, distorted by `overconfidence` (1: calibrated; above 1: the draft trusts its best
  // guess too much).
  std::vector<double> rank_hit = {0.6, 0.1, 0.06, 0.04, 0.02, 0.02, 0.01, 0.01};
  double spread = 0.5;
  double overconfidence = 1.0;
  // If not empty, the entries replace rank_hit in turn, each for `phase_tokens` positions.
  std::vector<std::vector<double>> phases;
  int32_t phase_tokens = 0;

  static double uniform(uint64_t hash) {
    return static_cast<double>(mix_hash(hash, 77) >> 11) * 0x1p-53;
  }
  TokenId target_token(uint64_t history) const {
    return static_cast<TokenId>(mix_hash(history, seed) % static_cast<uint64_t>(vocab));
  }
  // Returns the chance that the first guess is right after this history.
  double top_chance(uint64_t history, double mean) const {
    const double u = uniform(mix_hash(history, seed + 1));
    // The chance moves towards 1 or towards 0 such that its mean over histories stays `mean`.
    const double reach = u < 1.0 - mean ? -mean : 1.0 - mean;
    return mean + spread * reach;
  }
  // Drafters with different numbers are right equally often, but at different positions.
  std::vector<Candidate> draft_top(uint64_t history, int32_t count, int32_t position,
                                   uint64_t drafter = 0) const {
    const std::vector<double>& hits =
        phases.empty() ? rank_hit
                       : phases[static_cast<size_t>(position / phase_tokens) % phases.size()];
    const double mean = hits.empty() ? 0.0 : hits[0];
    const double top = top_chance(history, mean);
    std::vector<double> chances;
    for (size_t r = 0; r < hits.size(); ++r) {
      chances.push_back(r == 0 || mean >= 1.0 ? top : hits[r] * (1.0 - top) / (1.0 - mean));
    }
    double u = uniform(mix_hash(history, seed + 2 + 1000 * drafter));
    size_t hit = 0;
    while (hit < chances.size() && u >= chances[hit]) u -= chances[hit++];
    const TokenId right = target_token(history);
    std::vector<Candidate> result;
    for (size_t r = 0; static_cast<int32_t>(result.size()) < count && r < 64; ++r) {
      auto token = static_cast<TokenId>((static_cast<size_t>(right) + 1 + r * 7) %
                                        static_cast<size_t>(draft_vocab));
      if (r == hit && hit < chances.size()) token = right;
      const auto same = std::find_if(result.begin(), result.end(),
                                     [&](const Candidate& c) { return c.token == token; });
      if (token >= draft_vocab || same != result.end() || (r != hit && token == right)) {
        continue;
      }
      const double chance = r < chances.size() ? chances[r] : 0.001;
      const double told =
          r == 0 ? std::pow(std::max(chance, 1e-4), 1.0 / overconfidence) : chance / overconfidence;
      result.push_back({token, static_cast<float>(std::log(std::max(told, 1e-6)))});
    }
    return result;
  }
};

}  // namespace forerun
