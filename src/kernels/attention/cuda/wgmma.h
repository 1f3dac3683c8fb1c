// Products of a warpgroup for attention: 64 columns (queries) times the keys or values of a tile of
// 64 positions in the cache's layout (attention/cuda/kv_layout.h). They give the bits of
// mma.m16n8k16 over the same 16 inputs, with either order of operands. Device code.
#pragma once

#include <cstdint>

#include "kernels/attention/cuda/kv_layout.h"
#include "kernels/cuda/wgmma.h"

namespace forerun::cuda {

#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900

constexpr int kPanelBytes = 64 * kPanelRowBytes;  // one panel of a tile

// Returns the descriptor of values as the second operand: 16 positions by all dimensions. `address`
// is the row of the first position in shared memory.
__device__ __forceinline__ uint64_t wgmma_values(uint32_t address) {
  constexpr uint64_t kSwizzle = uint64_t{1} << 62;
  constexpr uint64_t kEightRows = uint64_t{8 * kPanelRowBytes >> 4} << 32;
  constexpr uint64_t kPanel = uint64_t{kPanelBytes >> 4} << 16;
  return kSwizzle | kEightRows | kPanel | (address & 0x3ffff) >> 4;
}

#define FORERUN_ROW(i) "+f"(d[i][0]), "+f"(d[i][1]), "+f"(d[i][2]), "+f"(d[i][3])
#define FORERUN_ROWS_4 FORERUN_ROW(0), FORERUN_ROW(1), FORERUN_ROW(2), FORERUN_ROW(3)
#define FORERUN_ROWS_8                                                                            \
  FORERUN_ROW(0), FORERUN_ROW(1), FORERUN_ROW(2), FORERUN_ROW(3), FORERUN_ROW(4), FORERUN_ROW(5), \
      FORERUN_ROW(6), FORERUN_ROW(7)
#define FORERUN_ROWS_16                                                             \
  FORERUN_ROWS_8, FORERUN_ROW(8), FORERUN_ROW(9), FORERUN_ROW(10), FORERUN_ROW(11), \
      FORERUN_ROW(12), FORERUN_ROW(13), FORERUN_ROW(14), FORERUN_ROW(15)

// The operand numbers of these registers.
#define FORERUN_NAMES_8                                        \
  "%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,%16," \
  "%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,%28,%29,%30,%31"
#define FORERUN_SUMS_8 "{" FORERUN_NAMES_8 "}"
#define FORERUN_SUMS_16                                           \
  "{" FORERUN_NAMES_8                                             \
  ",%32,%33,%34,%35,%36,%37,%38,%39,%40,%41,%42,%43,%44,%45,%46," \
  "%47,%48,%49,%50,%51,%52,%53,%54,%55,%56,%57,%58,%59,%60,%61,"  \
  "%62,%63}"

// Computes d (+)= 64 columns x 16 dimensions times 32 or 64 keys.
template <bool kAdd>
__device__ __forceinline__ void wgmma_scores(float (&d)[4][4], uint64_t queries, uint64_t keys) {
  asm volatile(
      "wgmma.mma_async.sync.aligned.m64n32k16.f32.bf16.bf16 "
      "{%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15},%16,%17,%18,1,1,0,0;"
      : FORERUN_ROWS_4
      : "l"(queries), "l"(keys), "n"(kAdd ? 1 : 0));
}
template <bool kAdd>
__device__ __forceinline__ void wgmma_scores(float (&d)[8][4], uint64_t queries, uint64_t keys) {
  asm volatile("wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 " FORERUN_SUMS_8
               ","
               "%32,%33,%34,1,1,0,0;"
               : FORERUN_ROWS_8
               : "l"(queries), "l"(keys), "n"(kAdd ? 1 : 0));
}
// Computes d += 64 columns x 16 positions times 64 or 128 dimensions.
__device__ __forceinline__ void wgmma_add_values(float (&d)[8][4], const uint32_t (&a)[4],
                                                 uint64_t values) {
  asm volatile("wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 " FORERUN_SUMS_8
               ","
               "{%32,%33,%34,%35},%36,1,1,1,1;"
               : FORERUN_ROWS_8
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(values));
}
__device__ __forceinline__ void wgmma_add_values(float (&d)[16][4], const uint32_t (&a)[4],
                                                 uint64_t values) {
  asm volatile("wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16 " FORERUN_SUMS_16
               ","
               "{%64,%65,%66,%67},%68,1,1,1,1;"
               : FORERUN_ROWS_16
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(values));
}
// Does the same with the probabilities, 64 columns x 16 positions, in shared memory.
__device__ __forceinline__ void wgmma_add_values(float (&d)[16][4], uint64_t probs,
                                                 uint64_t values) {
  asm volatile("wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16 " FORERUN_SUMS_16
               ","
               "%64,%65,1,1,1,0,1;"
               : FORERUN_ROWS_16
               : "l"(probs), "l"(values));
}
// Return once all products of this warp are in `d`.
__device__ __forceinline__ void wgmma_wait(float (&d)[4][4]) {
  asm volatile("wgmma.wait_group.sync.aligned 0;" : FORERUN_ROWS_4 : : "memory");
}
__device__ __forceinline__ void wgmma_wait(float (&d)[8][4]) {
  asm volatile("wgmma.wait_group.sync.aligned 0;" : FORERUN_ROWS_8 : : "memory");
}
__device__ __forceinline__ void wgmma_wait(float (&d)[16][4]) {
  asm volatile("wgmma.wait_group.sync.aligned 0;" : FORERUN_ROWS_16 : : "memory");
}

#undef FORERUN_SUMS_16
#undef FORERUN_SUMS_8
#undef FORERUN_NAMES_8
#undef FORERUN_ROWS_16
#undef FORERUN_ROWS_8
#undef FORERUN_ROWS_4
#undef FORERUN_ROW

#endif

}  // namespace forerun::cuda
