// The nearest-centroid kernel for AVX-512.
#include "kernels/simd/avx512.h"

#include "kernels/pq_index/cpu/nearest_impl.h"

namespace forerun {

void nearest_avx512(const NearestCall& call) { nearest<simd::Avx512>(call); }

}  // namespace forerun
