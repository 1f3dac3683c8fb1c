// The instruction set of the CPU kernels, chosen once per process: the best that the CPU has, or
// the one in FORERUN_ISA (scalar, avx2, avx512, avx512_bf16, amx), so that tests can force each.
#pragma once

#include <cstdint>

#include "forerun/status.h"

namespace forerun {

enum class Isa : uint8_t {
  kScalar,      // portable C++; the only instruction set off x86
  kAvx2,        // AVX2 + FMA + F16C
  kAvx512,      // AVX-512 F/BW/DQ/VL and VNNI
  kAvx512Bf16,  // kAvx512 and AVX512_BF16 (Zen 4, Sapphire Rapids)
  kAmx,         // kAvx512Bf16 and AMX tiles in bf16 and int8 (Sapphire Rapids)
};

// Returns whether this build has kernels for `isa`. FORERUN_BUILT_ISAS, which the preset demo sets,
// has bit n for the instruction set n of Isa; without it, the build has all instruction sets of the
// architecture.
constexpr bool isa_is_built(Isa isa) {
#if defined(FORERUN_BUILT_ISAS)
  return ((FORERUN_BUILT_ISAS >> static_cast<int>(isa)) & 1) != 0;
#elif defined(__x86_64__)
  return isa <= Isa::kAmx;
#else
  return isa == Isa::kScalar;
#endif
}

// True if this build has the kernels that emulate AMX.
#if defined(__x86_64__) && !defined(FORERUN_BUILT_ISAS)
inline constexpr bool kAmxTwinIsBuilt = true;
#else
inline constexpr bool kAmxTwinIsBuilt = false;
#endif

const char* isa_name(Isa isa);
// Returns whether this CPU and this build have `isa`.
bool isa_is_supported(Isa isa);
// Returns whether `isa` is only emulated, by slow kernels with the same bits: kAmx on a CPU with
// AVX512_BF16 that has no AMX tiles, or whose operating system does not permit them. An emulated
// instruction set is used only if FORERUN_ISA names it.
bool isa_is_emulated(Isa isa);
// Returns whether this CPU multiplies bf16 faster by fused multiply-adds than by its dot
// instruction. In two cycles Intel's CPUs start one dot instruction or four multiply-adds.
bool bf16_dots_are_slow();
// Returns the instruction set in use. The first call reads FORERUN_ISA. If it names an unknown
// instruction set or one that this CPU lacks, kernels use the best one, and check_isa() returns an
// error. If this build has no instruction set of this CPU, check_isa() returns kUnsupported, and
// kernels must not be called.
Isa current_isa();
Status check_isa();

}  // namespace forerun
