// The arithmetic of the linear kernel (linear_cuda.cu): one unit of a weight times the activations
// of a block, from shared memory into the sums of a warp. Device code; included by the kernel
// alone.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>

#include "kernels/linear/linear_plan_cuda.h"
#include "kernels/linear/linear_ring_cuda.h"
#include "kernels/linear/ptx_cuda.h"

namespace forerun::cuda {

#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900

__device__ __forceinline__ uint32_t subtract_bf16x2(uint32_t a, uint32_t b) {
  __nv_bfloat162 r =
      __hsub2(*reinterpret_cast<__nv_bfloat162*>(&a), *reinterpret_cast<__nv_bfloat162*>(&b));
  return *reinterpret_cast<uint32_t*>(&r);
}

template <LinearFormat kFormat>
struct Unit;

template <>
struct Unit<LinearFormat::kInt4Group128> {
  static constexpr bool kAhead = false;  // its registers are worth more to the compiler

  // acc += scale * (x . (q - zero)) over 128 inputs and 32 outputs. `input`: what the
  // lane gives to load_matrices(); `magic`: two bf16 128.
  template <int kRowBlocks, class Ring>
  __device__ __forceinline__ void multiply(const LinearKernelArgs& args, Ring& ring, int lane,
                                           uint32_t input, int row_block_bytes, uint32_t magic,
                                           float (&acc)[2][kRowBlocks][4]) {
    constexpr int kHalvesAtOnce = 2;
    ring.wait();
    uint32_t scales[2];
    asm volatile("ld.shared.v2.u32 {%0,%1},[%2];"
                 : "=r"(scales[0]), "=r"(scales[1])
                 : "r"(ring.data + 2048 + (lane >> 2) * 8)
                 : "memory");
    uint32_t zeros;
    asm volatile("{.reg .u16 z; ld.shared.u16 z,[%1]; cvt.u32.u16 %0,z;}"
                 : "=r"(zeros)
                 : "r"(ring.data + 2112 + (lane >> 2) * 2)
                 : "memory");
#pragma unroll
    for (int first = 0; first < 2; first += kHalvesAtOnce) {
      uint32_t q[kHalvesAtOnce][8];
#pragma unroll
      for (int i = 0; i < 2 * kHalvesAtOnce; ++i) {
        const uint4 v = load_shared_16(ring.data + lane * 16 + (first * 2 + i) * 512);
        q[i / 2][i % 2 * 4 + 0] = v.x;
        q[i / 2][i % 2 * 4 + 1] = v.y;
        q[i / 2][i % 2 * 4 + 2] = v.z;
        q[i / 2][i % 2 * 4 + 3] = v.w;
      }
      if (first + kHalvesAtOnce == 2) ring.release(args, lane, q[kHalvesAtOnce - 1][7]);
      uint32_t zero[kHalvesAtOnce][2];
#pragma unroll
      for (int i = 0; i < 2 * kHalvesAtOnce; ++i) {
        zero[i / 2][i % 2] = ((zeros >> (4 * (first * 2 + i))) & 15u) * 0x10001u + magic;
      }
      float part[kHalvesAtOnce][kRowBlocks][4] = {};
#pragma unroll
      for (int chunk = 0; chunk < 4; ++chunk) {
        uint4 x[kRowBlocks];
#pragma unroll
        for (int block = 0; block < kRowBlocks; ++block) {
          x[block] = load_matrices(input + block * row_block_bytes + chunk * 64);
        }
#pragma unroll
        for (int odd = 0; odd < 2; ++odd) {
#pragma unroll
          for (int half = 0; half < kHalvesAtOnce; ++half) {
            uint32_t a[4];
#pragma unroll
            for (int i = 0; i < 4; ++i) {
              const uint32_t biased =
                  and_or<0x000f000fu>(q[half][chunk * 2 + odd] >> (4 * i), magic);
              a[i] = subtract_bf16x2(biased, zero[half][i % 2]);
            }
#pragma unroll
            for (int block = 0; block < kRowBlocks; ++block) {
              mma_bf16(part[half][block], a, odd ? x[block].z : x[block].x,
                       odd ? x[block].w : x[block].y);
            }
          }
        }
      }
#pragma unroll
      for (int half = 0; half < kHalvesAtOnce; ++half) {
        const float2 scale =
            __half22float2(*reinterpret_cast<const __half2*>(&scales[first + half]));
#pragma unroll
        for (int block = 0; block < kRowBlocks; ++block) {
#pragma unroll
          for (int i = 0; i < 4; ++i) {
            float& sum = acc[first + half][block][i];
            sum = __fmaf_rn(i < 2 ? scale.x : scale.y, part[half][block][i], sum);
          }
        }
      }
    }
  }
};

template <>
struct Unit<LinearFormat::kBf16> {
  // There is so little arithmetic that the next unit is loaded before this one is multiplied.
  static constexpr bool kAhead = true;
  uint4 w[2][2];

  template <class Ring>
  __device__ __forceinline__ void take(const LinearKernelArgs& args, Ring& ring, int lane) {
    if (ring.to_use == 0) return;
    --ring.to_use;
    ring.wait();
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      w[i / 2][i % 2] = load_shared_16(ring.data + lane * 16 + i * 512);
    }
    ring.release(args, lane, w[1][1].w);
  }

  // acc += x . w over 32 inputs and 32 outputs.
  template <int kRowBlocks, class Ring>
  __device__ __forceinline__ void multiply(const LinearKernelArgs& args, Ring& ring, int lane,
                                           uint32_t input, int row_block_bytes, uint32_t /*magic*/,
                                           float (&acc)[2][kRowBlocks][4]) {
    const Unit current = *this;
    take(args, ring, lane);
#pragma unroll
    for (int block = 0; block < kRowBlocks; ++block) {
      const uint4 x = load_matrices(input + block * row_block_bytes);
#pragma unroll
      for (int step = 0; step < 2; ++step) {
#pragma unroll
        for (int half = 0; half < 2; ++half) {
          const uint4& v = current.w[half][step];
          const uint32_t a[4] = {v.x, v.y, v.z, v.w};
          mma_bf16(acc[half][block], a, step != 0 ? x.z : x.x, step != 0 ? x.w : x.y);
        }
      }
    }
  }
};

#endif

}  // namespace forerun::cuda
