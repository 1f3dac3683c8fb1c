// The measurements of the arms of `auto` as plain numbers, which are kept between starts.
#pragma once

#include <vector>

namespace forerun {

// Measurements of one arm at about one load.
struct MeasuredLoad {
  double sequences = 1.0;
  double context_tokens = 1.0;  // tokens of each sequence
  double ratio = 1.0;           // measured over predicted tokens per second
  double count = 0.0;           // number of measurements; older ones count less
};

struct MeasuredArm {
  // Standard deviations of one measurement's logarithm, each with its number of measurements:
  // `noise` between measurements of one load, `spread` between rounds within one.
  double noise = 0.0;
  double noise_count = 0.0;
  double spread = 0.0;
  double spread_count = 0.0;
  std::vector<MeasuredLoad> loads;
};

// Counts of verified guesses and of accepted ones; older ones count less.
struct MeasuredGuesses {
  double seen = 0.0;
  double right = 0.0;
};

struct MeasuredArms {
  std::vector<MeasuredArm> arms;
  std::vector<MeasuredGuesses> candidates;  // guesses of the arms that are views
};

}  // namespace forerun
