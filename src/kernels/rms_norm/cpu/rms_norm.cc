#include "kernels/rms_norm/rms_norm.h"

#include <cmath>

namespace forerun {

void rms_norm_row(const float* x, std::span<const float> weight, float eps, float* y) {
  constexpr int64_t kLanes = 16;
  const auto dim = static_cast<int64_t>(weight.size());
  float lanes[kLanes] = {};
  const int64_t whole = dim / kLanes * kLanes;
  for (int64_t begin = 0; begin < whole; begin += kLanes) {
    for (int64_t lane = 0; lane < kLanes; ++lane) lanes[lane] += x[begin + lane] * x[begin + lane];
  }
  for (int64_t index = whole; index < dim; ++index) lanes[index - whole] += x[index] * x[index];
  for (int64_t half = kLanes / 2; half > 0; half /= 2) {
    for (int64_t lane = 0; lane < half; ++lane) lanes[lane] += lanes[lane + half];
  }
  const float scale = 1.0f / std::sqrt(lanes[0] / static_cast<float>(dim) + eps);
  const float* w = weight.data();
  for (int64_t index = 0; index < dim; ++index) y[index] = x[index] * scale * w[index];
}

void rms_norm(const Team& team, MatrixView<const float> x, std::span<const float> weight, float eps,
              MatrixView<float> y) {
  const WorkRange share = team.share(x.dim(0));
  for (int64_t row = share.begin; row < share.end; ++row) {
    rms_norm_row(x.row(row), weight, eps, y.row(row));
  }
}

}  // namespace forerun
