// Compares divide_all() with the compiler's division, quotient by quotient.
#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

#include "device/cuda/cuda_testing.h"
#include "kernels/cuda/divide.h"

namespace forerun::cuda {
namespace {

constexpr int kAtOnce = 4;

struct Comparison {
  uint32_t blocks;             // number of blocks that ran
  uint32_t differ;             // number of differing quotients
  uint32_t dividend, divisor;  // bits of one differing pair
};

__device__ uint32_t mix(uint32_t bits) {
  bits = (bits ^ bits >> 16) * 0x7feb352du;
  bits = (bits ^ bits >> 15) * 0x846ca68bu;
  return bits ^ bits >> 16;
}
// Returns a number from 1 to 2^`exponents`.
__device__ float divisor_of(uint32_t random, uint32_t exponents) {
  return __uint_as_float((127 + (random >> 23) % exponents) << 23 | (random & 0x7fffff));
}

// Returns a number with magnitude from 2^`first` to 2^(first + exponents), sometimes a zero of
// either sign.
__device__ float dividend_of(uint32_t random, int first, uint32_t exponents) {
  const uint32_t sign = random & 0x80000000;
  if (random % 64 == 0) return __uint_as_float(sign);
  return __uint_as_float(sign | (127 + first + (random >> 23) % exponents) << 23 |
                         (mix(random) & 0x7fffff));
}

// Compares three kinds of dividends: any bits; values as in attention and gates; and any value that
// needs no special case.
__global__ void compare(Comparison* result) {
  const uint32_t thread = blockIdx.x * blockDim.x + threadIdx.x;
  const uint32_t kind = blockIdx.x % 4;
  float a[kAtOnce], b[kAtOnce], found[kAtOnce];
  for (uint32_t i = 0; i < kAtOnce; ++i) {
    const uint32_t random = mix(thread * kAtOnce + i);
    a[i] = kind == 0   ? __uint_as_float(random)
           : kind == 1 ? dividend_of(random, -27, 50)
                       : dividend_of(random, -60, 120);
    b[i] = divisor_of(mix(~random), kind == 0 ? 127 : kind == 1 ? 20 : 60);
    found[i] = a[i];
  }
  divide_all(found, b);
  for (int i = 0; i < kAtOnce; ++i) {
    const float expected = __fdiv_rn(a[i], b[i]);
    if (__float_as_uint(found[i]) == __float_as_uint(expected)) continue;
    if (isnan(found[i]) && isnan(expected)) continue;
    atomicAdd(&result->differ, 1u);
    result->dividend = __float_as_uint(a[i]);
    result->divisor = __float_as_uint(b[i]);
  }
  if (threadIdx.x == 0) atomicAdd(&result->blocks, 1u);
}

TEST(DivideCuda, QuotientsHaveTheBitsOfTheCompilersDivision) {
  SKIP_WITHOUT_GPUS(1);
  constexpr uint32_t kBlocks = uint32_t{1} << 22;  // blocks of 256 threads: 2^32 pairs
  const DeviceBuffer buffer = to_device(std::vector<Comparison>(1));
  compare<<<kBlocks, 256>>>(buffer.as<Comparison>());
  ASSERT_EQ(cudaGetLastError(), cudaSuccess);
  const Comparison result = to_host<Comparison>(buffer, 1)[0];
  EXPECT_EQ(result.blocks, kBlocks);
  EXPECT_EQ(result.differ, 0u) << "one of them: bits " << result.dividend << " by "
                               << result.divisor;
}

}  // namespace
}  // namespace forerun::cuda
