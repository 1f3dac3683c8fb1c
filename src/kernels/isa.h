// The instruction set that the CPU kernels use, chosen once a process: the best that the processor
// has, or the one that FORERUN_ISA names (scalar, avx2, avx512, avx512_bf16), so that tests can
// force each.
#pragma once

#include <cstdint>

#include "forerun/status.h"

namespace forerun {

enum class Isa : uint8_t {
  kScalar,      // portable C++; the only one off x86
  kAvx2,        // AVX2 + FMA + F16C
  kAvx512,      // AVX-512 F/BW/DQ/VL and VNNI
  kAvx512Bf16,  // kAvx512 and AVX512_BF16 (Zen 4, Sapphire Rapids)
};

const char* isa_name(Isa isa);
bool isa_is_supported(Isa isa);
// The instruction set in use. FORERUN_ISA is read on the first call; a name that is unknown or not
// supported by this processor is reported by check_isa() and the best one is used instead.
Isa current_isa();
Status check_isa();

}  // namespace forerun
