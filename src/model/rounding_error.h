// The difference between rounded weights and the stored ones.
#pragma once

#include <functional>

#include "checkpoint/checkpoint.h"
#include "forerun/status.h"
#include "model/widened_formats.h"

namespace forerun {

// Sums over weights; the sums of several modules add up.
struct RoundingError {
  double squared_error = 0;
  double squared_weights = 0;
  double largest = 0;  // maximum of |rounded - stored|

  void add(const RoundingError& other);
  // Returns the Frobenius norm of the error over that of the weights; 0 if all weights are 0.
  double relative() const;
};

// Returns the error of a module with `rounded_to` set. Makes the rounded weights by requantize()
// and reads the stored ones from the file, a few rows at a time on all cores, and releases the
// file's pages afterwards. `progress` receives the finished fraction of the module, on the calling
// thread. Returns kUnsupported if the format cannot hold a weight.
Result<RoundingError> rounding_error(const Checkpoint& checkpoint, const ModuleRead& read,
                                     const std::function<void(double)>& progress);

}  // namespace forerun
