// The statistics of a text in a simulation: how often a draft's guesses are right.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "simulation/acceptance_model.h"

namespace forerun {

// A kind of text, described by how often the target's token is among the draft's best 1, 2, 4 and 8
// guesses.
struct SimulatedText {
  std::string name;
  double within_1, within_2, within_4, within_8;
  double spread = 0.7;
  double overconfidence = 1.0;

  AcceptanceModel models(uint64_t seed) const {
    AcceptanceModel models;
    models.seed = seed;
    models.vocab = 5000;
    models.draft_vocab = 5000;
    models.rank_hit = {within_1, within_2 - within_1};
    for (int i = 0; i < 2; ++i) models.rank_hit.push_back((within_4 - within_2) / 2);
    for (int i = 0; i < 4; ++i) models.rank_hit.push_back((within_8 - within_4) / 4);
    models.spread = spread;
    models.overconfidence = overconfidence;
    return models;
  }
};

// Returns texts like those of the demo pair (held-out, sampled and looping), and one for which the
// draft is never right.
inline std::vector<SimulatedText> simulated_texts() {
  return {
      {"code greedy", 0.67, 0.79, 0.86, 0.91},   {"prose greedy", 0.55, 0.69, 0.80, 0.87},
      {"code loops", 0.89, 0.94, 0.96, 0.97},    {"code sampled", 0.60, 0.69, 0.74, 0.78},
      {"prose sampled", 0.34, 0.46, 0.57, 0.67}, {"overconfident", 0.40, 0.50, 0.6, 0.7, 0.7, 3.0},
      {"useless draft", 0.03, 0.05, 0.08, 0.12}};
}

}  // namespace forerun
