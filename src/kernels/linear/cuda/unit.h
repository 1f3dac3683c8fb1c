// The arithmetic that the linear kernels share: multiplies one unit of a weight by the activations
// of a block, both in shared memory, and adds the products to the sums of a warp. Device code; only
// the linear kernels include it.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>

#include "kernels/cuda/ptx.h"
#include "kernels/linear/cuda/grouped_operands.h"
#include "kernels/linear/cuda/grouped_unit.h"
#include "kernels/linear/cuda/plan.h"
#include "kernels/linear/cuda/ring.h"

namespace forerun::cuda {

#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900

// Int4 weights as operands of mma_f16(). The low bits 0 to 10 of an f16 count units of 2^-24. A
// byte holds the weight of row r of the fragment in its lower nibble and, for the same input, the
// weight of row r + 8 (the upper row) in its upper nibble. The lower row's operand is the whole
// byte; the upper row's operand is the byte without its lower nibble, which is 16 times too large.
// So the excess of the lower row's sum is the upper row's sum, which is subtracted later. Half of
// the operands are thus whole bytes, which take one instruction to extract; a nibble would also
// take a shift.
struct Int4Operand {
  static constexpr float kLowerScale = 0x1p24f / kF16Scale;
  static constexpr float kUpperScale = 0x1p20f / kF16Scale;
  uint32_t zero[2];  // zero points of the lower and of the upper row, twice each

  // Byte `byte` of `zeros` holds the zero points of a lower and an upper row, one per nibble.
  __device__ __forceinline__ Int4Operand(uint32_t zeros, uint32_t byte) {
    zero[0] = __byte_perm(zeros, 0, 0x4040 + byte * 0x0101);
    zero[1] = zero[0] & 0x00f000f0u;
  }
  // Unpacks a lane's 8 weights of a 16 x 16 fragment and subtracts their zero points.
  __device__ __forceinline__ void load(uint32_t (&a)[4], uint32_t nibbles) const {
    const uint32_t high = __byte_perm(nibbles, 0, 0x4341);  // bytes 1 and 3, as halves
    a[0] = subtract_f16x2(nibbles & 0x00ff00ffu, zero[0]);
    a[1] = subtract_f16x2(nibbles & 0x00f000f0u, zero[1]);
    a[2] = subtract_f16x2(high, zero[0]);
    a[3] = subtract_f16x2(high & 0x00f000f0u, zero[1]);
  }
  // Computes sums += scale * (x . (q - zero)) up to a power of two, by which finish() multiplies.
  // sums[0] and [1] are two columns of the lower row, [2] and [3] of the upper row. `part` has the
  // products with a[]; `scales` has the scales of the two rows.
  static __device__ __forceinline__ void add_scaled(float (&sums)[4], const float (&part)[4],
                                                    float2 scales) {
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      sums[i] = __fmaf_rn(scales.x, __fsub_rn(part[i], part[i + 2]), sums[i]);
      sums[i + 2] = __fmaf_rn(scales.y, part[i + 2], sums[i + 2]);
    }
  }
  static __device__ __forceinline__ void finish(float (&sums)[4]) {
#pragma unroll
    for (int i = 0; i < 4; ++i) sums[i] *= i < 2 ? kLowerScale : kUpperScale;
  }
};

// Int8 weights as operands of mma_f16(). A byte holds weight + 128 and is a (subnormal) f16 without
// conversion, like a nibble.
struct Int8Operand {
  static constexpr float kScale = 0x1p24f / kF16Scale;
  static constexpr uint32_t kZeros = 0x00800080u;

  // Unpacks a lane's 8 weights of a 16 x 16 fragment. `first` holds the weights of inputs 0 to 7,
  // the lower row's two before the upper row's; `second` those of inputs 8 to 15.
  static __device__ __forceinline__ void load(uint32_t (&a)[4], uint32_t first, uint32_t second) {
    a[0] = subtract_f16x2(__byte_perm(first, 0, 0x4140), kZeros);
    a[1] = subtract_f16x2(__byte_perm(first, 0, 0x4342), kZeros);
    a[2] = subtract_f16x2(__byte_perm(second, 0, 0x4140), kZeros);
    a[3] = subtract_f16x2(__byte_perm(second, 0, 0x4342), kZeros);
  }
  // Works as Int4Operand::add_scaled().
  static __device__ __forceinline__ void add_scaled(float (&sums)[4], const float (&part)[4],
                                                    float2 scales) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      sums[i] = __fmaf_rn(i < 2 ? scales.x : scales.y, part[i], sums[i]);
    }
  }
  static __device__ __forceinline__ void finish(float (&sums)[4]) {
#pragma unroll
    for (int i = 0; i < 4; ++i) sums[i] *= kScale;
  }
};

// The end of a unit's multiplication, common to integer formats.
template <class Operand>
struct IntegerUnit {
  static constexpr bool kAhead = false;  // loading ahead would take too many registers

  // Adds a unit's products, scaled, to the sums. `scales` has the f16 scales of the lane's rows, by
  // half of the fragment.
  template <int kN8Tiles>
  static __device__ __forceinline__ void add_scaled(float (&acc)[2][kN8Tiles][4],
                                                    const float (&part)[2][kN8Tiles][4],
                                                    const uint32_t (&scales)[2]) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const float2 scale = __half22float2(reinterpret_cast<const __half2&>(scales[half]));
#pragma unroll
      for (int n = 0; n < kN8Tiles; ++n) {
        Operand::add_scaled(acc[half][n], part[half][n], scale);
      }
    }
  }
  template <int kN8Tiles>
  static __device__ __forceinline__ void finish(float (&acc)[2][kN8Tiles][4]) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
#pragma unroll
      for (int n = 0; n < kN8Tiles; ++n) Operand::finish(acc[half][n]);
    }
  }
};

template <LinearFormat kFormat>
struct Unit : GroupedUnit<kFormat> {};

template <>
struct Unit<LinearFormat::kInt4Group128> : IntegerUnit<Int4Operand> {
  // Computes acc += scale * (x . (q - zero)) over 128 inputs and 32 outputs, after a final
  // finish(). `input` is the lane's address for ldmatrix_x4().
  template <int kN8Tiles, class Ring>
  __device__ __forceinline__ void multiply(const LinearKernelArgs& args, Ring& ring, int lane,
                                           uint32_t input, int n8_tile_bytes,
                                           float (&acc)[2][kN8Tiles][4]) {
    ring.wait();
    const uint2 scale_words = load_shared_8(ring.data + 2048 + (lane >> 2) * 8);
    const uint32_t scales[2] = {scale_words.x, scale_words.y};
    const uint32_t zeros = load_shared_2(ring.data + 2112 + (lane >> 2) * 2);
    uint32_t q[2][8];
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const uint4 v = load_shared_16(ring.data + lane * 16 + i * 512);
      q[i / 2][i % 2 * 4 + 0] = v.x;
      q[i / 2][i % 2 * 4 + 1] = v.y;
      q[i / 2][i % 2 * 4 + 2] = v.z;
      q[i / 2][i % 2 * 4 + 3] = v.w;
    }
    ring.release(args, q[1][7]);
    const Int4Operand operand[2] = {{zeros, 0}, {zeros, 1}};
    float part[2][kN8Tiles][4] = {};
#pragma unroll
    for (int chunk = 0; chunk < 4; ++chunk) {
      uint4 x[kN8Tiles];
#pragma unroll
      for (int n = 0; n < kN8Tiles; ++n) {
        x[n] = ldmatrix_x4(input + n * n8_tile_bytes + chunk * 64);
      }
#pragma unroll
      for (int odd = 0; odd < 2; ++odd) {
#pragma unroll
        for (int half = 0; half < 2; ++half) {
          uint32_t a[4];
          operand[half].load(a, q[half][chunk * 2 + odd]);
#pragma unroll
          for (int n = 0; n < kN8Tiles; ++n) {
            mma_f16(part[half][n], a, odd ? x[n].z : x[n].x, odd ? x[n].w : x[n].y);
          }
        }
      }
    }
    add_scaled(acc, part, scales);
  }
};

template <>
struct Unit<LinearFormat::kInt8Group64> : IntegerUnit<Int8Operand> {
  // Computes acc += scale * (x . w) over 64 inputs and 32 outputs, after a final finish().
  template <int kN8Tiles, class Ring>
  __device__ __forceinline__ void multiply(const LinearKernelArgs& args, Ring& ring, int lane,
                                           uint32_t input, int n8_tile_bytes,
                                           float (&acc)[2][kN8Tiles][4]) {
    ring.wait();
    const uint2 scale_words = load_shared_8(ring.data + 2048 + (lane >> 2) * 8);
    const uint32_t scales[2] = {scale_words.x, scale_words.y};
    uint4 q[2][2];
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      q[i / 2][i % 2] = load_shared_16(ring.data + lane * 16 + i * 512);
    }
    ring.release(args, q[1][1].w);
    float part[2][kN8Tiles][4] = {};
#pragma unroll
    for (int chunk = 0; chunk < 2; ++chunk) {
      uint4 x[kN8Tiles];
#pragma unroll
      for (int n = 0; n < kN8Tiles; ++n) {
        x[n] = ldmatrix_x4(input + n * n8_tile_bytes + chunk * 64);
      }
#pragma unroll
      for (int odd = 0; odd < 2; ++odd) {
#pragma unroll
        for (int half = 0; half < 2; ++half) {
          const uint4& v = q[half][chunk];
          uint32_t a[4];
          Int8Operand::load(a, odd != 0 ? v.z : v.x, odd != 0 ? v.w : v.y);
#pragma unroll
          for (int n = 0; n < kN8Tiles; ++n) {
            mma_f16(part[half][n], a, odd != 0 ? x[n].z : x[n].x, odd != 0 ? x[n].w : x[n].y);
          }
        }
      }
    }
    add_scaled(acc, part, scales);
  }
};

template <>
struct Unit<LinearFormat::kBf16> {
  // A unit has so little arithmetic that the next unit is loaded before this one is multiplied.
  static constexpr bool kAhead = true;
  uint4 w[2][2];

  template <class Ring>
  __device__ __forceinline__ void load_ahead(const LinearKernelArgs& args, Ring& ring, int lane) {
    if (ring.to_use == 0) return;
    --ring.to_use;
    ring.wait();
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      w[i / 2][i % 2] = load_shared_16(ring.data + lane * 16 + i * 512);
    }
    ring.release(args, w[1][1].w);
  }

  // Computes acc += x . w over 32 inputs and 32 outputs.
  template <int kN8Tiles, class Ring>
  __device__ __forceinline__ void multiply(const LinearKernelArgs& args, Ring& ring, int lane,
                                           uint32_t input, int n8_tile_bytes,
                                           float (&acc)[2][kN8Tiles][4]) {
    const Unit current = *this;
    load_ahead(args, ring, lane);
#pragma unroll
    for (int n = 0; n < kN8Tiles; ++n) {
      const uint4 x = ldmatrix_x4(input + n * n8_tile_bytes);
#pragma unroll
      for (int step = 0; step < 2; ++step) {
#pragma unroll
        for (int half = 0; half < 2; ++half) {
          const uint4& v = current.w[half][step];
          const uint32_t a[4] = {v.x, v.y, v.z, v.w};
          mma_bf16(acc[half][n], a, step != 0 ? x.z : x.x, step != 0 ? x.w : x.y);
        }
      }
    }
  }

  template <int kN8Tiles>
  static __device__ __forceinline__ void finish(float (&)[2][kN8Tiles][4]) {}
};

#endif

}  // namespace forerun::cuda
