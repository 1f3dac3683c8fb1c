// Compares the GPU's estimates of Gumbel noise with the host's noise, for every possible value.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <span>
#include <vector>

#include "base/noise.h"
#include "device/cuda/cuda_memory.h"
#include "device/cuda/cuda_testing.h"
#include "kernels/logits_summary/cuda/gumbel.h"

namespace forerun::cuda {
namespace {

__global__ void compute_all(float* estimates, float* bounds, float* guesses) {
  const uint32_t value = blockIdx.x * blockDim.x + threadIdx.x;
  estimates[value] = gumbel_estimate(value << 8);
  bounds[value] = noise_bound(value << 8);
  guesses[value] = gumbel_guess(value << 8);
}

TEST(GumbelCuda, EveryEstimateIsNearTheNoiseAndBelowItsBound) {
  SKIP_WITHOUT_GPUS(1);
  constexpr size_t kValues = size_t{1} << 24;
  auto buffer = DeviceBuffer::allocate(3 * kValues * sizeof(float), "estimates");
  ASSERT_TRUE(buffer.ok()) << buffer.status().message();
  float* const all = buffer->as<float>();
  compute_all<<<kValues / 256, 256>>>(all, all + kValues, all + 2 * kValues);
  std::vector<float> estimates(3 * kValues, NAN);
  ASSERT_TRUE(buffer->download(std::as_writable_bytes(std::span(estimates))).ok());
  float worst = 0.0f;
  for (uint32_t value = 0; value < kValues; ++value) {
    const float noise = gumbel_noise(value << 8);
    const float error = std::abs(estimates[value] - noise);
    ASSERT_LE(error, 1e-5f) << "value " << value << ": " << estimates[value] << ", noise " << noise;
    ASSERT_NEAR(estimates[2 * kValues + value], noise, 2e-3f) << "value " << value;
    const float bound = estimates[kValues + value];
    ASSERT_GE(bound, noise + 5e-4f) << "value " << value;
    if (noise > 4.0f && noise < 13.0f) {
      ASSERT_LE(bound, noise + 0.1f) << "value " << value;
    }
    worst = std::max(worst, error);
  }
  RecordProperty("worst_error", std::to_string(worst));
}

}  // namespace
}  // namespace forerun::cuda
