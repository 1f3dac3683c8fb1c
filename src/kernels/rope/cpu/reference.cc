#include <cmath>

#include "kernels/rope/rope.h"

namespace forerun {

void rope_ref(const RopeFrequencies& frequencies, std::span<const int32_t> positions,
              MatrixView<float> x) {
  const size_t half = frequencies.frequencies.size();
  for (size_t row = 0; row < positions.size(); ++row) {
    float* values = x.row(static_cast<int64_t>(row));
    for (size_t head = 0; head < static_cast<size_t>(x.dim(1)) / (2 * half); ++head) {
      for (size_t index = 0; index < half; ++index) {
        const double angle = positions[row] * frequencies.frequencies[index];
        float* pair = values + head * 2 * half + index;
        const double low = pair[0];
        const double high = pair[half];
        const double c = std::cos(angle) * frequencies.magnitude;
        const double s = std::sin(angle) * frequencies.magnitude;
        pair[0] = static_cast<float>(low * c - high * s);
        pair[half] = static_cast<float>(high * c + low * s);
      }
    }
  }
}

}  // namespace forerun
