// The weight of a token in a softmax. A polynomial computes it as a float, and weights are summed
// in fixed point. Every operation is a single IEEE operation, so that all instruction sets and
// devices give the same bits.
#pragma once

#include <bit>
#include <cstdint>

namespace forerun {

// Returns exp(score) for score <= 0, with a relative error below 2e-7; 0 below -87 and for NaN.
constexpr float token_weight(float score) {
  if (!(score >= -87.0f)) return 0.0f;
  const float magic = 12582912.0f;  // 1.5 * 2^23: adding it rounds to an integer
  const float shifted = score * 1.44269504f + magic;
  const float n = shifted - magic;
  float r = score - n * 0.693359375f;
  r = r - n * -2.12194440e-4f;
  float y = 1.98412698e-4f;
  y = y * r + 1.38888889e-3f;
  y = y * r + 8.33333333e-3f;
  y = y * r + 4.16666667e-2f;
  y = y * r + 1.66666667e-1f;
  y = y * r + 0.5f;
  y = y * r + 1.0f;
  y = y * r + 1.0f;
  return std::bit_cast<float>(std::bit_cast<uint32_t>(y) +
                              (std::bit_cast<uint32_t>(shifted) << 23));
}

// Returns `weight` in [0, 1] with 40 fractional bits, rounded to nearest with ties to even. Sums do
// not depend on their order, so a vocabulary may be summed in any number of pieces; up to 2^23
// tokens fit.
constexpr uint64_t fixed_token_weight(float weight) {
  // Adding 2^52 leaves the integer in the low bits.
  const double scaled = static_cast<double>(weight) * 0x1p40 + 0x1p52;
  return std::bit_cast<uint64_t>(scaled) - std::bit_cast<uint64_t>(0x1p52);
}

}  // namespace forerun
