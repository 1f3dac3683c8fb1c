// The linear kernels' part of RMSNorm, which has no kernel of its own (rms_norm/cuda/rms_norm.h):
// the scale of each input row, and the data of each output row for the next norm. Device
// code; only the linear kernels include it.
#pragma once

#include <cstdint>

#include "kernels/cuda/ptx.h"
#include "kernels/linear/cuda/plan.h"
#include "kernels/linear/cuda/ring.h"
#include "kernels/rms_norm/cuda/rms_norm.h"

namespace forerun::cuda {

#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900

// 1 / RMS of the rows of a block's input, in its shared memory: float [rows]. They are computed
// while the activations are in flight and needed once the first sums are finished.
struct InverseRms {
  uint32_t scales, ready;  // `ready` is a barrier at which every warp arrives

  // Computes the scales of at most 8 * kCount rows, `kCount` rows per warp, since a block has at
  // least 8 warps. The last warps take the first rows, since the first warps issue the copies of
  // activations.
  template <int kCount>
  __device__ __forceinline__ void compute(const LinearKernelArgs& args, int first_row, int rows,
                                          int warp, int lane) const {
    if (args.input_squares == nullptr) return;
    const int row = (args.warps - 1 - warp) * kCount;
    if (row < rows) compute_rows<kCount>(args, first_row, row, lane);
    if (lane == 0) barrier_arrive(ready);
  }

  // The computation of the scales in steps, for at most as many rows as warps: prepare() runs
  // before the previous kernel's end; load() issues the loads of squares before the copies of
  // activations, and compute() adds them up after these copies have been issued. A pair has the
  // sums of squares of two adjacent groups of kNormGroup inputs.
  struct RowSquares {
    static constexpr int kPairs = 8;  // pairs per lane
    const float* from;                // the lane's first pair
    int row;
    int left;  // pairs of the row from `from` on; 0 or less if the warp has no row
    float2 pair[kPairs];
  };
  __device__ __forceinline__ RowSquares prepare(const LinearKernelArgs& args, int first_row,
                                                int rows, int warp, int lane) const {
    RowSquares squares;
    const int pairs = args.inputs / (2 * kNormGroup);
    squares.row = args.warps - 1 - warp;
    squares.left = static_cast<int>(opaque(static_cast<uint32_t>(
        args.input_squares != nullptr && squares.row < rows ? pairs - lane : 0)));
    squares.from = opaque(args.input_squares +
                          2 * (static_cast<int64_t>(first_row + squares.row) * pairs + lane));
    return squares;
  }
  // Applies args.row_index. Call it after wait_for_previous_kernel().
  __device__ __forceinline__ void gather(const LinearKernelArgs& args, int first_row,
                                         RowSquares& squares) const {
    if (squares.left <= 0) return;
    const int row = first_row + squares.row;
    squares.from += static_cast<int64_t>(args.row_index[row] - row) * (args.inputs / kNormGroup);
  }
  __device__ __forceinline__ void load(RowSquares& squares) const {
#pragma unroll
    for (int i = 0; i < RowSquares::kPairs; ++i) {
      squares.pair[i] =
          32 * i < squares.left ? load_pair_through_l2(squares.from + 64 * i) : float2{};
    }
  }
  __device__ __forceinline__ void compute(const LinearKernelArgs& args, int rows, int lane,
                                          const RowSquares& squares) const {
    if (args.input_squares == nullptr) return;
    if (squares.row < rows) {
      float sum = 0;
#pragma unroll
      for (int i = 0; i < RowSquares::kPairs; ++i) {
        sum += squares.pair[i].x;
        sum += squares.pair[i].y;
      }
#pragma unroll 1
      for (int i = 32 * RowSquares::kPairs; i < squares.left; i += 32) {
        const float2 pair = load_pair_through_l2(squares.from + 2 * i);
        sum += pair.x;
        sum += pair.y;
      }
#pragma unroll
      for (int lanes = 16; lanes > 0; lanes /= 2) sum += __shfl_xor_sync(~0u, sum, lanes);
      if (lane == 0) store_scale(args, squares.row, sum);
    }
    if (lane == 0) barrier_arrive(ready);
  }
  __device__ __forceinline__ void store_scale(const LinearKernelArgs& args, int row,
                                              float squares) const {
    const float scale = rsqrtf(squares * args.inverse_inputs + args.norm_eps);
    store_shared_4(scales + row * 4, __float_as_uint(scale));
  }

  // Computes the scales of kCount rows of the block from `row` on; rows past the last row get its
  // scale. All lanes of a warp call it.
  template <int kCount>
  __device__ __forceinline__ void compute_rows(const LinearKernelArgs& args, int first_row, int row,
                                               int lane) const {
    const int pairs = args.inputs / (2 * kNormGroup);
    const float* squares[kCount];
    float sum[kCount] = {};
#pragma unroll
    for (int r = 0; r < kCount; ++r) {
      const int from = input_row(args, min(first_row + row + r, args.rows - 1));
      squares[r] = args.input_squares + static_cast<int64_t>(from) * 2 * pairs;
    }
    constexpr int kInFlight = 8 / kCount;  // loads of a row in flight at once
#pragma unroll 1
    for (int begin = lane; begin < pairs; begin += 32 * kInFlight) {
      float2 v[kInFlight][kCount];
#pragma unroll
      for (int i = 0; i < kInFlight; ++i) {
#pragma unroll
        for (int r = 0; r < kCount; ++r) {
          const int pair = begin + 32 * i;
          v[i][r] = pair < pairs ? load_pair_through_l2(squares[r] + 2 * pair) : float2{};
        }
      }
#pragma unroll
      for (int i = 0; i < kInFlight; ++i) {
#pragma unroll
        for (int r = 0; r < kCount; ++r) {
          sum[r] += v[i][r].x;
          sum[r] += v[i][r].y;
        }
      }
    }
#pragma unroll
    for (int lanes = 16; lanes > 0; lanes /= 2) {
#pragma unroll
      for (int r = 0; r < kCount; ++r) sum[r] += __shfl_xor_sync(~0u, sum[r], lanes);
    }
#pragma unroll
    for (int r = 0; r < kCount; ++r) {
      if (lane == 0) store_scale(args, row + r, sum[r]);
    }
  }

  // Scales v, the sums of rows `row` and `row` + 1 of the block in the layout of store_sums().
  __device__ __forceinline__ void apply(const LinearKernelArgs& args, int row,
                                        float4 (&v)[2]) const {
    if (args.input_squares == nullptr) return;
    const float2 scale = load_shared_pair(scales + row * 4);
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      v[half] = make_float4(v[half].x * scale.x, v[half].y * scale.y, v[half].z * scale.x,
                            v[half].w * scale.y);
    }
  }
};

// Prefetches the next norm's weights for a cluster's tiles into the L2, one line per tile.
__device__ __forceinline__ void prefetch_next_norm(const LinearKernelArgs& args, int tile_begin,
                                                   int tile_end) {
  static_assert(kTileOutputs * sizeof(float) == 128);
  const int tile = tile_begin + static_cast<int>(threadIdx.x);
  if (args.next_norm.weight != nullptr && tile < tile_end) {
    prefetch_into_l2(args.next_norm.weight + tile * kTileOutputs);
  }
}

// Writes the products of x, four adjacent outputs of a row as two pairs of bf16, with the next
// norm's `weight`. Returns the sum of the outputs' squares.
__device__ __forceinline__ float write_scaled(const LinearKernelArgs& args, uint32_t at, uint2 x,
                                              float4 weight) {
  const float a = __uint_as_float(x.x << 16), b = __uint_as_float(x.x & 0xffff0000u);
  const float c = __uint_as_float(x.y << 16), d = __uint_as_float(x.y & 0xffff0000u);
  const ActivationFormat format = args.next_norm.format;
  *reinterpret_cast<uint2*>(args.next_norm.scaled + at) =
      make_uint2(pack_activations(format, a * weight.x, b * weight.y),
                 pack_activations(format, c * weight.z, d * weight.w));
  return __fmaf_rn(d, d, __fmaf_rn(c, c, __fmaf_rn(b, b, a * a)));
}

// Adds up the squares of half a tile and writes the sums. The four lanes that hold a row are 4
// apart. For whole warps. `lane` is the lane of the fragment, 4 * (output / 4) + row / 2; `squares`
// is for rows `row` and `row` + 1.
__device__ __forceinline__ void write_squares(const LinearKernelArgs& args, int tile, int lane,
                                              int row, const float (&squares)[2]) {
  static_assert(kNormGroup * 2 == kTileOutputs);
#pragma unroll
  for (int r = 0; r < 2; ++r) {
    float sum = squares[r];
    sum += __shfl_xor_sync(~0u, sum, 4);
    sum += __shfl_xor_sync(~0u, sum, 8);
    if ((lane & 12) == 0 && row + r < args.rows) {
      args.next_norm.squares[static_cast<uint32_t>((row + r) * (args.outputs / kNormGroup) +
                                                   tile * 2 + (lane >> 4))] = sum;
    }
  }
}

#endif

}  // namespace forerun::cuda
