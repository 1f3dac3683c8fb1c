// The linear kernels for AVX-512 with VNNI and BF16. Compiled with those flags: see
// linear/cpu/tiles.inc for what may not be used here.
//
// Only bf16 weights in pairs use the dot instruction: on Zen 4 the f32 path's 117 Gop/s a
// core is below what 8 rows of weights at 28 GB/s need (224 Gop/s), the dot's 235 is not.
#include <immintrin.h>

#include <cstddef>
#include <cstdint>

#include "kernels/linear/cpu/kernels.h"
#include "kernels/linear/cpu/macros.h"

namespace forerun {
namespace avx512_bf16 {
namespace {
#include "kernels/linear/cpu/vec_avx512.inc"
//
#include "kernels/linear/cpu/tiles.inc"

FORERUN_INLINE Vec::F bf16_dot(Vec::F acc, Vec::I w, Vec::I x) {
  return _mm512_dpbf16_ps(acc, reinterpret_cast<__m512bh>(w), reinterpret_cast<__m512bh>(x));
}

#include "kernels/linear/cpu/bf16_dot.inc"
}  // namespace
}  // namespace avx512_bf16

constinit const LinearKernels kLinearAvx512Bf16 = avx512_bf16::make_bf16_dot_kernels("avx512_bf16");

}  // namespace forerun
