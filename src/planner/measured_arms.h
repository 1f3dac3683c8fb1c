// What has been measured of the arms of `auto`, as plain numbers: what is kept between starts.
#pragma once

#include <vector>

namespace forerun {

// Measurements of one arm at about one load.
struct MeasuredLoad {
  double sequences = 1.0;
  double context_tokens = 1.0;  // tokens of each sequence
  double ratio = 1.0;           // measured over predicted tokens a second
  double count = 0.0;           // measurements; older ones count less
};

struct MeasuredArm {
  // Standard deviations of one measurement's logarithm, each with the number of measurements that
  // it comes from: how far measurements of one load differ, and how far rounds within one differ.
  double noise = 0.0;
  double noise_count = 0.0;
  double spread = 0.0;
  double spread_count = 0.0;
  std::vector<MeasuredLoad> loads;
};

// Verified guesses, of which older ones count less, and those that were right.
struct MeasuredGuesses {
  double seen = 0.0;
  double right = 0.0;
};

struct MeasuredArms {
  std::vector<MeasuredArm> arms;
  std::vector<MeasuredGuesses> candidates;  // guesses of the arms that are views
};

}  // namespace forerun
