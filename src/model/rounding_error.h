// How far rounded weights are from the stored ones.
#pragma once

#include <functional>

#include "checkpoint/checkpoint.h"
#include "forerun/status.h"
#include "model/widened_formats.h"

namespace forerun {

// Sums over weights; those of several modules add up.
struct RoundingError {
  double squared_error = 0;
  double squared_weights = 0;
  double largest = 0;  // the largest |rounded - stored|

  void add(const RoundingError& other);
  // The Frobenius norm of the error over that of the weights; 0 where all weights are 0.
  double relative() const;
};

// The error of a module whose `rounded_to` is set. Makes the rounded weights by requantize() and
// the stored ones from the file, a few rows at a time on all cores, and lets go of the file's pages
// afterwards. `progress` gets the fraction of the module that is done, on the calling thread.
// kUnsupported where the format has no room for a weight.
Result<RoundingError> rounding_error(const Checkpoint& checkpoint, const ModuleRead& read,
                                     const std::function<void(double)>& progress);

}  // namespace forerun
