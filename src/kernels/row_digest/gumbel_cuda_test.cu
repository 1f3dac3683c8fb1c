// The GPU's estimate of Gumbel noise against the host's noise, for every value that there is.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <span>
#include <vector>

#include "base/noise.h"
#include "device/cuda/cuda_devices.h"
#include "device/cuda/cuda_memory.h"
#include "kernels/row_digest/gumbel_cuda.h"

namespace forerun::cuda {
namespace {

__global__ void estimate_all(float* estimates) {
  const uint32_t value = blockIdx.x * blockDim.x + threadIdx.x;
  estimates[value] = gumbel_estimate(value << 8);
}

TEST(GumbelCuda, EveryEstimateIsNearTheNoise) {
  const auto devices = list_devices();
  ASSERT_TRUE(devices.ok()) << devices.status().message();
  if (devices->empty()) GTEST_SKIP() << "no GPU";
  constexpr size_t kValues = size_t{1} << 24;
  auto buffer = DeviceBuffer::allocate(kValues * sizeof(float), "estimates");
  ASSERT_TRUE(buffer.ok()) << buffer.status().message();
  estimate_all<<<kValues / 256, 256>>>(buffer->as<float>());
  std::vector<float> estimates(kValues, NAN);
  ASSERT_TRUE(buffer->download(std::as_writable_bytes(std::span(estimates))).ok());
  float worst = 0.0f;
  for (uint32_t value = 0; value < kValues; ++value) {
    const float noise = gumbel_noise(value << 8);
    const float error = std::abs(estimates[value] - noise);
    ASSERT_LE(error, 1e-5f) << "value " << value << ": " << estimates[value] << ", noise " << noise;
    ASSERT_GE(gumbel_bound(value << 8), noise) << "value " << value;
    worst = std::max(worst, error);
  }
  RecordProperty("worst_error", std::to_string(worst));
}

}  // namespace
}  // namespace forerun::cuda
