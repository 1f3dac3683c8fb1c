#include <cmath>

#include "kernels/rms_norm/rms_norm.h"

namespace forerun {

void rms_norm_ref(MatrixView<const float> x, std::span<const float> weight, float eps,
                  MatrixView<float> y) {
  for (int64_t row = 0; row < x.dim(0); ++row) {
    double sum = 0.0;
    for (int64_t dim = 0; dim < x.dim(1); ++dim) {
      sum += static_cast<double>(x.row(row)[dim]) * x.row(row)[dim];
    }
    const double root = std::sqrt(sum / static_cast<double>(x.dim(1)) + eps);
    for (int64_t dim = 0; dim < x.dim(1); ++dim) {
      y.row(row)[dim] =
          static_cast<float>(x.row(row)[dim] / root * weight[static_cast<size_t>(dim)]);
    }
  }
}

}  // namespace forerun
