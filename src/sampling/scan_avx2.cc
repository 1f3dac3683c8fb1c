// The scans for AVX2; 16 lanes are two registers.
#include "kernels/simd/avx2.h"
#include "kernels/simd/twice.h"
#include "sampling/scan_impl.h"

namespace forerun {

const ScanKernels& scan_kernels_avx2() {
  static constexpr ScanKernels kKernels = make_kernels<simd::Twice<simd::Avx2>>();
  return kKernels;
}

}  // namespace forerun
