// silu(gate) * up against the compiler's division, for every gate that there is.
#include <gtest/gtest.h>

#include <cstdint>
#include <span>
#include <vector>

#include "device/cuda/cuda_memory.h"
#include "device/cuda/cuda_testing.h"
#include "kernels/linear/cuda/silu.h"

namespace forerun::cuda {
namespace {

__device__ bool same_bits(float a, float b) {
  return __float_as_uint(a) == __float_as_uint(b) || (isnan(a) && isnan(b));
}

// Counts the gates of which the two differ, and keeps one of them. Neighbours are a stride apart,
// so that those which need special care stand beside those which do not.
__global__ void compare_all(uint32_t* differ, uint32_t* one) {
  constexpr uint32_t kStride = uint32_t{1} << 30;
  const uint32_t first = blockIdx.x * blockDim.x + threadIdx.x;
  float gate[4], usual[4];
  for (uint32_t i = 0; i < 4; ++i) {
    gate[i] = __uint_as_float(first + i * kStride);
    usual[i] = gate[i] / (1.0f + __expf(-gate[i])) * 1.5f;
  }
  const float4 y = silu_times(make_float4(gate[0], gate[1], gate[2], gate[3]),
                              make_float4(1.5f, 1.5f, 1.5f, 1.5f));
  const float four[4] = {y.x, y.y, y.z, y.w};
  for (uint32_t i = 0; i < 4; ++i) {
    if (same_bits(four[i], usual[i])) continue;
    atomicAdd(differ, 1u);
    *one = first + i * kStride;
  }
}
// The same of four neighbours, of which none needs special care where gates are usual.
__global__ void compare_neighbours(uint32_t* differ, uint32_t* one) {
  const uint32_t first = (blockIdx.x * blockDim.x + threadIdx.x) * 4;
  const float4 gate = make_float4(__uint_as_float(first), __uint_as_float(first + 1),
                                  __uint_as_float(first + 2), __uint_as_float(first + 3));
  const float4 y = silu_times(gate, make_float4(1.0f, 1.0f, 1.0f, 1.0f));
  const float x[4] = {gate.x, gate.y, gate.z, gate.w};
  const float four[4] = {y.x, y.y, y.z, y.w};
  for (uint32_t i = 0; i < 4; ++i) {
    if (same_bits(four[i], x[i] / (1.0f + __expf(-x[i])))) continue;
    atomicAdd(differ, 1u);
    *one = first + i;
  }
}

TEST(SiluCuda, EveryGateHasTheBitsOfTheCompilersDivision) {
  SKIP_WITHOUT_GPUS(1);
  constexpr uint32_t kThreads = uint32_t{1} << 30;
  for (const auto kernel : {compare_all, compare_neighbours}) {
    std::vector<uint32_t> found(2, 0);
    auto buffer = DeviceBuffer::allocate(2 * sizeof(uint32_t), "differences");
    ASSERT_TRUE(buffer.ok()) << buffer.status().message();
    ASSERT_TRUE(buffer->upload(std::as_bytes(std::span(found))).ok());
    kernel<<<kThreads / 256, 256>>>(buffer->as<uint32_t>(), buffer->as<uint32_t>() + 1);
    ASSERT_TRUE(buffer->download(std::as_writable_bytes(std::span(found))).ok());
    EXPECT_EQ(found[0], 0u) << "one of them: bits " << found[1];
  }
}

}  // namespace
}  // namespace forerun::cuda
