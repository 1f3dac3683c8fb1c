// RMSNorm of a block's activations in the linear kernel (linear_cuda.cu), between their arrival in
// shared memory and the first product: they are multiplied by the norm's weight in place, rounded
// to bf16, and the squares of what was there are added up; the finished sums are divided by the
// root mean square. A warp takes one unit's inputs of 8 rows; the order of the sum of squares
// depends on the split alone. Device code; included by the kernel alone.
#pragma once

#include <cuda_bf16.h>

#include <cstdint>

#include "kernels/linear/linear_plan_cuda.h"
#include "kernels/linear/linear_ring_cuda.h"
#include "kernels/linear/ptx_cuda.h"

namespace forerun::cuda {

#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900

__device__ __forceinline__ uint32_t multiply_bf16x2(uint32_t a, uint32_t b) {
  const __nv_bfloat162 r = __hmul2(*reinterpret_cast<const __nv_bfloat162*>(&a),
                                   *reinterpret_cast<const __nv_bfloat162*>(&b));
  return *reinterpret_cast<const uint32_t*>(&r);
}
__device__ __forceinline__ float add_squares(float sum, uint32_t pair) {
  const float low = __uint_as_float(pair << 16);
  const float high = __uint_as_float(pair & 0xffff0000u);
  return __fmaf_rn(high, high, __fmaf_rn(low, low, sum));
}

template <LinearFormat kFormat, int kRowBlocks>
struct InputNorm {
  static constexpr int kUnitInputs = unit_inputs(kFormat);
  static constexpr int kRows = 8 * kRowBlocks;

  uint32_t data, full, ready;  // buffer 0 of the activations; the barriers of all buffers
  uint32_t weight;             // the norm's, for the block's inputs
  uint32_t squares;            // [units of the block][rows]
  int segment_units, block_units;

  // This warp's part of a segment, which it then reports as ready.
  __device__ __forceinline__ void scale(int input_stride_bytes, int segment, int buffer,
                                        uint32_t parity, int warp, int lane) const {
    const int first_unit = segment * segment_units;
    const int parts = min(segment_units, block_units - first_unit) * kRowBlocks;
    if (warp < parts) barrier_wait(full + buffer * 8, parity);
    for (int part = warp; part < parts; part += linear_warps(kRowBlocks)) {
      const int unit = part / kRowBlocks;
      const int row = part % kRowBlocks * 8 + (lane >> 2);
      const uint32_t inputs = data + (buffer * kRows + row) * input_stride_bytes +
                              unit * (kUnitInputs * 2) + (lane & 3) * 16;
      const uint32_t weights = weight + (first_unit + unit) * (kUnitInputs * 2) + (lane & 3) * 16;
      float square = 0;
#pragma unroll
      for (int i = 0; i < kUnitInputs / 32; ++i) {
        const uint4 x = load_shared_16(inputs + i * 64);
        const uint4 w = load_shared_16(weights + i * 64);
        square = add_squares(square, x.x);
        square = add_squares(square, x.y);
        square = add_squares(square, x.z);
        square = add_squares(square, x.w);
        store_shared_16(inputs + i * 64,
                        make_uint4(multiply_bf16x2(x.x, w.x), multiply_bf16x2(x.y, w.y),
                                   multiply_bf16x2(x.z, w.z), multiply_bf16x2(x.w, w.w)));
      }
      square += __shfl_xor_sync(~0u, square, 1);
      square += __shfl_xor_sync(~0u, square, 2);
      if ((lane & 3) == 0) {
        store_shared_4(squares + ((first_unit + unit) * kRows + row) * 4, __float_as_uint(square));
      }
    }
    order_stores_before_bulk_copies();  // the buffer's next contents
    __syncwarp();
    if (lane == 0) barrier_arrive(ready + buffer * 8);
  }

  // Sends this block's sums of squares to every block of the cluster, in the place of `rank` of
  // `to` [cluster_size][rows]. `parts`: as `squares`; call after a barrier of the block.
  __device__ __forceinline__ void push_squares(const float* parts, uint32_t to, uint32_t barrier,
                                               int cluster_size, int rank, int warp,
                                               int lane) const {
    for (int row = warp; row < kRows; row += linear_warps(kRowBlocks)) {
      float sum = 0;
      for (int unit = lane; unit < block_units; unit += 32) sum += parts[unit * kRows + row];
#pragma unroll
      for (int step = 16; step > 0; step /= 2) sum += __shfl_xor_sync(~0u, sum, step);
      if (lane < cluster_size) {
        const auto owner = static_cast<uint32_t>(lane);
        store_peer_4(peer_address(to + (rank * kRows + row) * 4, owner),
                     peer_address(barrier, owner), sum);
      }
    }
  }
};

// 1 / root mean square of a row, from the sums of squares of the cluster's blocks in their order:
// `squares` [cluster_size][rows].
__device__ __forceinline__ float inverse_rms(const LinearKernelArgs& args, const float* squares,
                                             int rows, int row) {
  float sum = squares[row];
  for (int source = 1; source < 1 << args.cluster_log2; ++source) {
    sum += squares[source * rows + row];
  }
  return 1.0f / sqrtf(sum / static_cast<float>(args.inputs) + args.norm_eps);
}

#endif

}  // namespace forerun::cuda
