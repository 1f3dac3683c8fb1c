// The scans for AVX-512.
#include "kernels/simd/avx512.h"
#include "sampling/scan_impl.h"

namespace forerun {

const ScanKernels& scan_kernels_avx512() {
  static constexpr ScanKernels kKernels = make_kernels<simd::Avx512>();
  return kKernels;
}

}  // namespace forerun
