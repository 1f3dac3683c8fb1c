// Matrix products of a warpgroup (128 threads) on sm_90a: 64 outputs, 16 per warp, times up to 128
// rows of activations. Measurements show that m64nNk16 gives the same bits as mma.m16n8k16 for the
// same 16 inputs, and that the order of the 16 inputs does not matter. Device code.
#pragma once

#include <cuda.h>

#include <cstdint>

#include "kernels/cuda/activation_format.h"

namespace forerun::cuda {

#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900

// Returns the matrix descriptor of activations in shared memory for wgmma. A tensor copy of 32 or
// 64 inputs per row has written them with a swizzle of 64 or 128 bytes. `address` is where the 16
// inputs of the first row would be without the swizzle. Each group of 8 rows begins at a multiple
// of its size.
template <int kRowInputs>
__device__ __forceinline__ uint64_t wgmma_descriptor(uint32_t address) {
  static_assert(kRowInputs == 32 || kRowInputs == 64);
  constexpr uint64_t kSwizzle = uint64_t{kRowInputs == 32 ? 2 : 1} << 62;
  constexpr uint64_t kEightRows = uint64_t{kRowInputs * 16 >> 4} << 32;
  return kSwizzle | kEightRows | uint64_t{1} << 16 | (address & 0x3ffff) >> 4;
}
// Moves a descriptor forward by `bytes`. Adding a constant keeps the descriptor in the uniform
// registers from which wgmma reads it.
__device__ __forceinline__ uint64_t wgmma_advance(uint64_t descriptor, int bytes) {
  return descriptor + static_cast<uint32_t>(bytes >> 4);
}
// Returns `address`, which must be the same in all lanes of the warp, in a form that tells the
// compiler so.
__device__ __forceinline__ uint32_t wgmma_uniform(uint32_t address) {
  return __shfl_sync(~0u, address, 0);
}
// Orders writes to registers before the products that read these registers.
__device__ __forceinline__ void wgmma_fence() {
  asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
}
__device__ __forceinline__ void wgmma_commit() {
  asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}

// Returns once all committed groups of products of this warp are done, except the last group.
__device__ __forceinline__ void wgmma_wait_for_all_but_one() {
  asm volatile("wgmma.wait_group.sync.aligned 1;" ::: "memory");
}

// Set the number of registers per thread of a warpgroup from here on, a multiple of 8. Another
// warpgroup may allocate the registers that one deallocates; an allocation waits until enough are
// free.
template <int kCount>
__device__ __forceinline__ void warpgroup_reg_dealloc() {
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(kCount));
}
template <int kCount>
__device__ __forceinline__ void warpgroup_reg_alloc() {
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(kCount));
}

// The asm operands for all sums of a thread. d[4n] to d[4n + 3] are the sums of n8 tile n (8 rows),
// in the layout of mma_bf16().
#define FORERUN_SUMS_16                                                                           \
  "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7]), \
      "+f"(d[8]), "+f"(d[9]), "+f"(d[10]), "+f"(d[11]), "+f"(d[12]), "+f"(d[13]), "+f"(d[14]),    \
      "+f"(d[15])
#define FORERUN_SUMS_32                                                                           \
  "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7]), \
      "+f"(d[8]), "+f"(d[9]), "+f"(d[10]), "+f"(d[11]), "+f"(d[12]), "+f"(d[13]), "+f"(d[14]),    \
      "+f"(d[15]), "+f"(d[16]), "+f"(d[17]), "+f"(d[18]), "+f"(d[19]), "+f"(d[20]), "+f"(d[21]),  \
      "+f"(d[22]), "+f"(d[23]), "+f"(d[24]), "+f"(d[25]), "+f"(d[26]), "+f"(d[27]), "+f"(d[28]),  \
      "+f"(d[29]), "+f"(d[30]), "+f"(d[31])
#define FORERUN_SUMS_64                                                                          \
  FORERUN_SUMS_32, "+f"(d[32]), "+f"(d[33]), "+f"(d[34]), "+f"(d[35]), "+f"(d[36]), "+f"(d[37]), \
      "+f"(d[38]), "+f"(d[39]), "+f"(d[40]), "+f"(d[41]), "+f"(d[42]), "+f"(d[43]), "+f"(d[44]), \
      "+f"(d[45]), "+f"(d[46]), "+f"(d[47]), "+f"(d[48]), "+f"(d[49]), "+f"(d[50]), "+f"(d[51]), \
      "+f"(d[52]), "+f"(d[53]), "+f"(d[54]), "+f"(d[55]), "+f"(d[56]), "+f"(d[57]), "+f"(d[58]), \
      "+f"(d[59]), "+f"(d[60]), "+f"(d[61]), "+f"(d[62]), "+f"(d[63])

#define FORERUN_WGMMA_32(type)                                             \
  asm volatile("wgmma.mma_async.sync.aligned.m64n32k16.f32." type "." type \
               " {%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15}," \
               "{%16,%17,%18,%19},%20,%21,1,1,0;"                          \
               : FORERUN_SUMS_16                                           \
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "n"(kAdd ? 1 : 0))

#define FORERUN_WGMMA_64(type)                                                     \
  asm volatile("wgmma.mma_async.sync.aligned.m64n64k16.f32." type "." type         \
               " {%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,"          \
               "%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,%28,%29,%30,%31}," \
               "{%32,%33,%34,%35},%36,%37,1,1,0;"                                  \
               : FORERUN_SUMS_32                                                   \
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "n"(kAdd ? 1 : 0))

#define FORERUN_WGMMA_128(type)                                                    \
  asm volatile("wgmma.mma_async.sync.aligned.m64n128k16.f32." type "." type        \
               " {%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,"          \
               "%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,%28,%29,%30,%31,"  \
               "%32,%33,%34,%35,%36,%37,%38,%39,%40,%41,%42,%43,%44,%45,%46,%47,"  \
               "%48,%49,%50,%51,%52,%53,%54,%55,%56,%57,%58,%59,%60,%61,%62,%63}," \
               "{%64,%65,%66,%67},%68,%69,1,1,0;"                                  \
               : FORERUN_SUMS_64                                                   \
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "n"(kAdd ? 1 : 0))

// Computes d (+)= 64 outputs x 16 inputs times 16 inputs x 32, 64 or 128 rows.
template <ActivationFormat kFormat, bool kAdd>
__device__ __forceinline__ void wgmma(float (&d)[16], const uint32_t (&a)[4], uint64_t b) {
  if constexpr (kFormat == ActivationFormat::kF16) {
    FORERUN_WGMMA_32("f16");
  } else {
    FORERUN_WGMMA_32("bf16");
  }
}
template <ActivationFormat kFormat, bool kAdd>
__device__ __forceinline__ void wgmma(float (&d)[32], const uint32_t (&a)[4], uint64_t b) {
  if constexpr (kFormat == ActivationFormat::kF16) {
    FORERUN_WGMMA_64("f16");
  } else {
    FORERUN_WGMMA_64("bf16");
  }
}
template <ActivationFormat kFormat, bool kAdd>
__device__ __forceinline__ void wgmma(float (&d)[64], const uint32_t (&a)[4], uint64_t b) {
  if constexpr (kFormat == ActivationFormat::kF16) {
    FORERUN_WGMMA_128("f16");
  } else {
    FORERUN_WGMMA_128("bf16");
  }
}

#undef FORERUN_WGMMA_32
#undef FORERUN_WGMMA_64
#undef FORERUN_WGMMA_128

// Returns once all committed groups of products of this warp are done, except the last kLeft
// groups. The products into `d` must be among the finished groups.
template <int kLeft = 0>
__device__ __forceinline__ void wgmma_wait(float (&d)[16]) {
  asm volatile("wgmma.wait_group.sync.aligned %16;" : FORERUN_SUMS_16 : "n"(kLeft) : "memory");
}
template <int kLeft = 0>
__device__ __forceinline__ void wgmma_wait(float (&d)[32]) {
  asm volatile("wgmma.wait_group.sync.aligned %32;" : FORERUN_SUMS_32 : "n"(kLeft) : "memory");
}
template <int kLeft = 0>
__device__ __forceinline__ void wgmma_wait(float (&d)[64]) {
  asm volatile("wgmma.wait_group.sync.aligned %64;" : FORERUN_SUMS_64 : "n"(kLeft) : "memory");
}

#undef FORERUN_SUMS_16
#undef FORERUN_SUMS_32
#undef FORERUN_SUMS_64

// Copies a box of a tensor map to shared memory. The box begins at column `column` and row `row`.
__device__ __forceinline__ void tensor_copy(uint32_t target, const CUtensorMap& map, int column,
                                            int row, uint32_t barrier) {
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes "
      "[%0],[%1,{%2,%3}],[%4];" ::"r"(target),
      "l"(&map), "r"(column), "r"(row), "r"(barrier)
      : "memory");
}
#endif

}  // namespace forerun::cuda
