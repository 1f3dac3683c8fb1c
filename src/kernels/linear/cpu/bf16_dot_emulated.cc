// The bf16 dot kernels with the instruction emulated by AVX-512F, so that their logic is tested on
// processors without AVX512_BF16. Only the test links this file.
#include <immintrin.h>

#include <cstddef>
#include <cstdint>

#include "kernels/linear/cpu/kernels.h"
#include "kernels/linear/cpu/macros.h"

namespace forerun {
namespace bf16_dot_emulated {
namespace {
#include "kernels/linear/cpu/vec_avx512.inc"
//
#include "kernels/linear/cpu/tiles.inc"

FORERUN_INLINE Vec::F even_half(Vec::I v) { return Vec::as_float(Vec::shift_left<16>(v)); }

FORERUN_INLINE Vec::F odd_half(Vec::I v) {
  return Vec::as_float(Vec::and_int(v, Vec::set1_int(static_cast<int32_t>(0xffff0000u))));
}

FORERUN_INLINE Vec::F bf16_dot(Vec::F acc, Vec::I w, Vec::I x) {
  acc = Vec::fma(odd_half(w), odd_half(x), acc);
  return Vec::fma(even_half(w), even_half(x), acc);
}

#include "kernels/linear/cpu/bf16_dot.inc"
}  // namespace
}  // namespace bf16_dot_emulated

extern const LinearKernels kLinearBf16DotEmulated;
constinit const LinearKernels kLinearBf16DotEmulated =
    bf16_dot_emulated::make_bf16_dot_kernels("bf16_dot_emulated");

}  // namespace forerun
