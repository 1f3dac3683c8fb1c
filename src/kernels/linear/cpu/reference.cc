// Reference implementations: plain loops in double that share only LinearWeight::dequantize() with
// the kernels.
#include <cmath>
#include <vector>

#include "kernels/linear/formats/weight_formats.h"
#include "kernels/linear/linear.h"

namespace forerun {
namespace {

// Rounds a linear layer's input as documented in precision.h.
std::vector<float> rounded_row(const float* x, int64_t in, Activation activation, bool integers) {
  std::vector<float> row(x, x + in);
  if (activation == Activation::kF32) return row;
  for (float& value : row) value = round_to_bf16(value);
  if (activation != Activation::kInt8 || !integers) return row;
  constexpr size_t kGroup = 128;
  for (size_t begin = 0; begin < row.size(); begin += kGroup) {
    const size_t end = std::min(begin + kGroup, row.size());
    float largest = 0.0f;
    for (size_t k = begin; k < end; ++k) largest = std::fmax(largest, std::fabs(row[k]));
    const float scale = largest / 127.0f;
    for (size_t k = begin; k < end; ++k) {
      row[k] = largest > 0.0f ? std::nearbyint(row[k] * (127.0f / largest)) * scale : 0.0f;
    }
  }
  return row;
}

std::vector<float> dense_weights(const LinearWeight& weight) {
  const int64_t out = weight.out_features();
  const int64_t in = weight.in_features();
  std::vector<float> w(static_cast<size_t>(out * in));
  weight.dequantize(0, MatrixView<float>(w.data(), {out, in}));
  return w;
}

// Returns sums in double, [rows][out].
std::vector<double> sums_ref(const LinearWeight& weight, MatrixView<const float> x,
                             Activation activation) {
  const bool integers = weight_format_info(weight.format()).kind == WeightKind::kIntegers;
  const std::vector<float> w = dense_weights(weight);
  const size_t in = static_cast<size_t>(weight.in_features());
  const size_t out = static_cast<size_t>(weight.out_features());
  std::vector<double> sums;
  for (int64_t row_idx = 0; row_idx < x.dim(0); ++row_idx) {
    const std::vector<float> row =
        rounded_row(x.row(row_idx), weight.in_features(), activation, integers);
    for (size_t out_idx = 0; out_idx < out; ++out_idx) {
      double sum = 0.0;
      for (size_t k = 0; k < in; ++k) {
        sum += static_cast<double>(row[k]) * static_cast<double>(w[out_idx * in + k]);
      }
      sums.push_back(sum);
    }
  }
  return sums;
}

double bias_at(std::span<const float> bias, int64_t out) {
  return bias.empty() ? 0.0 : static_cast<double>(bias[static_cast<size_t>(out)]);
}

}  // namespace

void linear_ref(const LinearWeight& weight, MatrixView<const float> x, Activation activation,
                MatrixView<float> y, const LinearEpilogue& epilogue) {
  const std::vector<double> sums = sums_ref(weight, x, activation);
  size_t idx = 0;
  for (int64_t row = 0; row < x.dim(0); ++row) {
    for (int64_t out = 0; out < weight.out_features(); ++out) {
      double value = sums[idx++] + bias_at(epilogue.bias, out);
      if (epilogue.residual != nullptr) {
        value += static_cast<double>(epilogue.residual[row * y.outer_stride() + out]);
      }
      const float stored = static_cast<float>(value);
      y.row(row)[out] = epilogue.round_to_bf16 ? round_to_bf16(stored) : stored;
    }
  }
}

void gate_up_swiglu_ref(const LinearWeight& gate, const LinearWeight& up, MatrixView<const float> x,
                        Activation activation, std::span<const float> gate_bias,
                        std::span<const float> up_bias, MatrixView<float> y) {
  const std::vector<double> gates = sums_ref(gate, x, activation);
  const std::vector<double> ups = sums_ref(up, x, activation);
  size_t idx = 0;
  for (int64_t row = 0; row < x.dim(0); ++row) {
    for (int64_t out = 0; out < gate.out_features(); ++out, ++idx) {
      const double g = gates[idx] + bias_at(gate_bias, out);
      const double u = ups[idx] + bias_at(up_bias, out);
      y.row(row)[out] = static_cast<float>(g / (1.0 + std::exp(-g)) * u);
    }
  }
}

}  // namespace forerun
