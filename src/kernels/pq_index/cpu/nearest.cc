#include "kernels/pq_index/cpu/nearest.h"

#include <cstdlib>

#include "kernels/isa.h"

namespace forerun {

NearestKernel nearest_kernel() {
  const Isa isa = current_isa();
  if constexpr (isa_is_built(Isa::kAvx512) || isa_is_built(Isa::kAvx512Bf16)) {
    if (isa >= Isa::kAvx512) return nearest_avx512;
  }
  if constexpr (isa_is_built(Isa::kAvx2)) {
    if (isa == Isa::kAvx2) return nearest_avx2;
  }
  if constexpr (isa_is_built(Isa::kScalar)) return nearest_scalar;
  std::abort();  // check_isa() has refused this CPU
}

}  // namespace forerun
