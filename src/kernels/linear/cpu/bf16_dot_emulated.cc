// The bf16 dot kernels with the instruction emulated by AVX-512F, so that CPUs without AVX512_BF16
// can test their logic. Only the test links this file.
#include <cstddef>
#include <cstdint>

#include "kernels/linear/cpu/kernels.h"
#include "kernels/simd/avx512_bf16_emulated.h"

namespace forerun {
namespace bf16_dot_emulated {
namespace {
using Vec = simd::EmulatedBf16;

#include "kernels/linear/cpu/tiles.inc"
//
#include "kernels/linear/cpu/bf16_dot.inc"
}  // namespace
}  // namespace bf16_dot_emulated

extern const LinearKernels kLinearBf16DotEmulated;
constinit const LinearKernels kLinearBf16DotEmulated =
    bf16_dot_emulated::make_bf16_dot_kernels("bf16_dot_emulated", kGroupedAvx512);

}  // namespace forerun
