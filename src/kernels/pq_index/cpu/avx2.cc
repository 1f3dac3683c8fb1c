// The kernel for AVX2 + FMA. CMakeLists.txt sets the compiler flags of this file.
#include "kernels/simd/avx2.h"

#include "kernels/pq_index/cpu/nearest_impl.h"

namespace forerun {

void nearest_avx2(const NearestCall& call) { nearest<simd::Avx2>(call); }

}  // namespace forerun
