// Compares silu(gate) * up with the compiler's division, for every possible gate.
#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

#include "device/cuda/cuda_testing.h"
#include "kernels/linear/cuda/silu.h"

namespace forerun::cuda {
namespace {

struct Comparison {
  uint32_t blocks;     // number of blocks that ran
  uint32_t differ;     // number of gates whose results differ
  uint32_t gate_bits;  // bits of a differing gate
};

__device__ void compare(const uint32_t (&bits)[4], Comparison* result) {
  constexpr float kUp = 1.5f;
  float gate[4];
  for (int i = 0; i < 4; ++i) gate[i] = __uint_as_float(bits[i]);
  const float4 silu =
      silu_times(make_float4(gate[0], gate[1], gate[2], gate[3]), make_float4(kUp, kUp, kUp, kUp));
  const float found[4] = {silu.x, silu.y, silu.z, silu.w};
  for (int i = 0; i < 4; ++i) {
    const float expected = gate[i] / (1.0f + __expf(-gate[i])) * kUp;
    if (__float_as_uint(found[i]) == __float_as_uint(expected)) continue;
    if (isnan(found[i]) && isnan(expected)) continue;
    atomicAdd(&result->differ, 1u);
    result->gate_bits = bits[i];
  }
  if (threadIdx.x == 0) atomicAdd(&result->blocks, 1u);
}
// Takes four distant gates per thread, so that special cases of the division are beside usual
// gates.
__global__ void compare_apart(Comparison* result) {
  const uint32_t first = blockIdx.x * blockDim.x + threadIdx.x;
  constexpr uint32_t kApart = uint32_t{1} << 30;
  compare({first, first + kApart, first + 2 * kApart, first + 3 * kApart}, result);
}
// Takes four adjacent gates per thread, so that most threads have only usual gates.
__global__ void compare_neighbours(Comparison* result) {
  const uint32_t first = (blockIdx.x * blockDim.x + threadIdx.x) * 4;
  compare({first, first + 1, first + 2, first + 3}, result);
}

TEST(SiluCuda, EveryGateHasTheBitsOfTheCompilersDivision) {
  SKIP_WITHOUT_GPUS(1);
  constexpr uint32_t kBlocks = uint32_t{1} << 22;  // blocks of 256 threads: all 2^32 gates
  for (const auto kernel : {compare_apart, compare_neighbours}) {
    const DeviceBuffer buffer = to_device(std::vector<Comparison>(1));
    kernel<<<kBlocks, 256>>>(buffer.as<Comparison>());
    ASSERT_EQ(cudaGetLastError(), cudaSuccess);
    const Comparison result = to_host<Comparison>(buffer, 1)[0];
    EXPECT_EQ(result.blocks, kBlocks);
    EXPECT_EQ(result.differ, 0u) << "one of them: bits " << result.gate_bits;
  }
}

}  // namespace
}  // namespace forerun::cuda
