#include "kernels/pq_index/cpu/nearest.h"

#include "kernels/isa.h"

namespace forerun {

NearestKernel nearest_kernel() {
#if defined(__x86_64__)
  switch (current_isa()) {
    case Isa::kScalar:
      return nearest_scalar;
    case Isa::kAvx2:
      return nearest_avx2;
    case Isa::kAvx512:
    case Isa::kAvx512Bf16:
    case Isa::kAmx:
      return nearest_avx512;
  }
#endif
  return nearest_scalar;
}

}  // namespace forerun
